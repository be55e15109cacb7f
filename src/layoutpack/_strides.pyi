import enum
from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

_Array: TypeAlias = ArrayLike | _SupportsDLPack
_T = TypeVar("_T", bound=np.generic)

class MemoryFormat(enum.Enum):
    contiguous_format = "contiguous_format"
    channels_last_1d = "channels_last_1d"
    channels_last = "channels_last"
    channels_last_3d = "channels_last_3d"

contiguous_format: Literal[MemoryFormat.contiguous_format]
channels_last_1d: Literal[MemoryFormat.channels_last_1d]
channels_last: Literal[MemoryFormat.channels_last]
channels_last_3d: Literal[MemoryFormat.channels_last_3d]

def memory_order(
    ndim: int, memory_format: MemoryFormat | None = None, layout: str | None = None
) -> tuple[int, ...]: ...
def is_contiguous(x: _Array, /, memory_format: MemoryFormat = ..., *, layout: str | None = None) -> bool: ...
def is_channels_last(x: _Array, /, *, layout: str | None = None) -> bool: ...
def is_strides_like_channels_last(x: _Array, /, *, layout: str | None = None) -> bool: ...
def memory_formats(x: _Array, /, *, layout: str | None = None) -> frozenset[MemoryFormat]: ...
def suggest_memory_format(x: _Array, /, *, layout: str | None = None) -> MemoryFormat: ...
def channels_last_strides(shape: Sequence[SupportsIndex], /, *, layout: str | None = None) -> tuple[int, ...]: ...
@overload
def storage_order(x: NDArray[_T], /, *, layout: str | None = None) -> np.ndarray[tuple[int], np.dtype[_T]]: ...
@overload
def storage_order(x: _Array, /, *, layout: str | None = None) -> np.ndarray[tuple[int], np.dtype[Any]]: ...
def storage_offsets(
    x: _Array, /, *, unit: Literal["elements", "bytes"] = "elements", layout: str | None = None
) -> NDArray[np.int64]: ...
