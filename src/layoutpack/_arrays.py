"""Arrays at the border: what callers pass in, and the `out` they offer. Every check here comes before any write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutpack import _border

Array = NDArray[Any]

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")

# Steps of NumPy's overlap solver: ordinary views take a few, and nobody waits for the rest.
_OVERLAP_WORK: Any = 100_000  # typeshed of NumPy knows only 0 and -1


def is_masked(x: object) -> bool:
    """Whether `x` is a masked array. Naming numpy.ma would import it, 15 ms in the first call; who has one has it."""
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(x, ma.MaskedArray)


def as_input(x: object, name: str) -> Array:
    """`x` as a base-class ndarray over the same memory where there is one."""
    if type(x) is np.ndarray:
        array = x
    elif is_masked(x):
        raise TypeError(f"{name}: a masked array would lose its mask; pass x.filled(value) or x.data")
    elif isinstance(x, np.ndarray):
        array = np.asarray(x)
    elif hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__"):
        array = _from_dlpack(x, name)
    else:
        array = np.asarray(x)
    if array.dtype.hasobject:
        raise TypeError(
            f"{name}: dtype {array.dtype} holds Python objects, whose bytes cannot be moved; convert it first"
        )
    if not array.dtype.itemsize:
        raise TypeError(f"{name}: dtype {array.dtype} has elements of no bytes")
    return array


def _from_dlpack(x: Any, name: str) -> Array:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        reason = error
    try:  # what DLPack cannot carry, such as JAX's bfloat16, may still come through __array__
        array = np.asarray(x)
    except (RuntimeError, TypeError, ValueError):
        array = None
    if array is None or array.dtype.hasobject:
        raise TypeError(f"{name}: {type(x).__name__} cannot be read as an array on the CPU ({reason})") from reason
    return array


def as_out(out: object, name: str) -> Array:
    """The array of ``out=``, unpacked from a 1-tuple."""
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(f"{name}: out= must be an array or a tuple of one array, got a tuple of {len(out)}")
        out = out[0]
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name}: out= must be a numpy.ndarray, got {type(out).__name__}")
    if is_masked(out):
        raise TypeError(f"{name}: out= must not be a masked array; pass its .data")
    return out


def check_out(out: Array, shape: tuple[int, ...], name: str) -> None:
    """Refuse an `out` of the wrong shape, one that cannot be written, or one that overlaps itself."""
    if out.shape != shape:
        raise ValueError(
            f"{name}: out= must have the shape {shape}, got {out.shape}{_first_difference(shape, out.shape)}"
        )
    if not out.flags.writeable:
        raise ValueError(f"{name}: out= is read-only")
    if overlaps_itself(out):
        raise ValueError(f"{name}: out= of shape {out.shape} and strides {out.strides} has elements that share memory")


def has_holes(dtype: np.dtype[Any]) -> bool:
    """Whether a structured dtype has bytes that belong to none of its fields, as a selection of fields has."""
    if dtype.subdtype is not None:
        return has_holes(dtype.subdtype[0])
    if dtype.fields is None:
        return False
    reached = 0
    for field, offset, *_ in sorted(dtype.fields.values(), key=lambda entry: entry[1]):
        if offset > reached or has_holes(field):
            return True
        reached = max(reached, offset + field.itemsize)  # fields may overlap
    return reached < dtype.itemsize


def _first_difference(needed: tuple[int, ...], given: tuple[int, ...]) -> str:
    if len(needed) != len(given):
        return f" ({len(given)} axes instead of {len(needed)})"
    axis = next(i for i, (a, b) in enumerate(zip(needed, given, strict=True)) if a != b)
    return f" (axis {axis}: {given[axis]} instead of {needed[axis]})"


def check_casting(casting: Any, name: str) -> None:
    """Refuse a casting rule that NumPy does not have."""
    if casting not in _CASTINGS:
        raise ValueError(f"{name}: casting must be one of {', '.join(_CASTINGS)}, got {casting!r}")


def check_cast(src: np.dtype[Any], dst: np.dtype[Any], casting: Any, name: str) -> None:
    """Refuse a conversion of dtype that the casting rule forbids."""
    if dst.hasobject:
        raise TypeError(f"{name}: dtype {dst} holds Python objects, whose bytes cannot be moved")
    if dst.subdtype is not None or not dst.itemsize:
        raise TypeError(f"{name}: dtype {dst} is not the dtype of an array's elements")
    check_casting(casting, name)
    if src != dst and not np.can_cast(src, dst, casting):
        raise TypeError(f"{name}: cannot cast from {src} to {dst} according to the rule {casting!r}")


def share_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have a byte in common; True as well where that is too hard to tell."""
    if _border.apart(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(a: Array) -> bool:
    """Whether two elements of the array have a byte in common; True as well where that is too hard to tell."""
    if a.flags.c_contiguous or not a.size:
        return False
    reach = a.itemsize
    for stride, extent in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if stride < reach:
            return _overlaps_exactly(a)
        reach += stride * (extent - 1)
    return False


def _overlaps_exactly(a: Array) -> bool:
    # Two elements differ first in some axis k; moved to the origin, one lies at index 0 of axis k and the other at a
    # later index, with any indices on the axes behind. So each k is a question about two arrays, which NumPy answers.
    base = np.asarray(a)
    return any(share_memory(base[(0,) * k + (slice(1, None),)], base[(0,) * k + (slice(0, 1),)]) for k in range(a.ndim))


def dense_strides(shape: Sequence[int], itemsize: int, order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Canonical byte strides of a dense array; `order`: axes from slowest to fastest, row-major if left out."""
    axes = range(len(shape)) if order is None else order
    strides = [0] * len(shape)
    step = itemsize
    for axis in reversed(list(axes)):
        strides[axis] = step
        step *= shape[axis] if order is not None else max(shape[axis], 1)
    return tuple(strides)


def fill_bytes(fill: Any, dtype: np.dtype[Any], name: str) -> bytes:
    """One element of padding as bytes; zero bytes for None."""
    if fill is None:
        return bytes(dtype.itemsize)
    try:
        with np.errstate(all="ignore"):
            value = np.array(fill, dtype)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{name}: fill={fill!r} does not fit dtype {dtype} ({error})") from error
    except TypeError as error:
        raise TypeError(f"{name}: fill={fill!r} is no value of dtype {dtype} ({error})") from error
    if value.shape:
        raise ValueError(f"{name}: fill= must be one value, got an array of shape {value.shape}")
    return value.tobytes()
