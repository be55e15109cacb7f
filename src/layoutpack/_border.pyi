from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray

from layoutpack._conversion import Conversion
from layoutpack._engine import Program
from layoutpack._numbers import Factors

ALIGNMENT: Final[int]

@final
class Call:
    def __new__(cls) -> Self: ...

def recall(x: object, out: object, arguments: tuple[object, ...], threads: int | None) -> NDArray[Any] | None: ...
def remember(
    x: NDArray[Any],
    y: NDArray[Any],
    fresh: bool,
    arguments: tuple[object, ...],
    conversion: Conversion,
    program: Program,
    factors: Factors | None = None,
) -> None: ...
def empty(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], nbytes: int) -> NDArray[Any]: ...
def apart(a: NDArray[Any], b: NDArray[Any]) -> bool: ...
def view(base: NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[Any]: ...
