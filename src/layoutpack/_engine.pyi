from collections.abc import Sequence
from typing import Any, Final, Self, final

from numpy.typing import NDArray

from layoutpack._numbers import Factors
from layoutpack._plan import Group
from layoutpack._tiles import Cast

OPENMP: Final[int]
COMPILER: Final[str]
NUMBER_TYPES: Final[tuple[str, ...]]

@final
class Program:
    @property
    def chunks(self) -> int: ...
    def __new__(cls, groups: Sequence[Group], fill: bytes, isa: str = "", cast: Cast | None = None) -> Self: ...
    def run(self, dst: NDArray[Any], src: NDArray[Any], threads: int, factors: Factors | None = None) -> None: ...

def run_many(
    programs: list[Program],
    dst: NDArray[Any],
    step: int,
    sources: list[NDArray[Any]],
    threads: int,
    factors: Factors | None = None,
) -> None: ...
def environment(name: bytes) -> str: ...
def isa_built() -> list[str]: ...
def isa_available() -> list[str]: ...
def isa_chosen() -> str: ...
def openmp_max_threads() -> int: ...
