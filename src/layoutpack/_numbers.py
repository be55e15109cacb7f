"""Numbers that become others on the way: the types that the engine converts, and scale and bias."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layoutpack import _engine
from layoutpack._tiles import Cast

RESULTS = _engine.NUMBER_TYPES[:3]
_NAMED = " or ".join((", ".join(RESULTS[:-1]), RESULTS[-1]))


class Factors(NamedTuple):
    """Scale and bias as the kernels read them: one of each, or one for each channel."""

    scale: NDArray[np.float32]
    bias: NDArray[np.float32]


@lru_cache(maxsize=64)
def number_type(dtype: np.dtype[Any]) -> str | None:
    """Name of a dtype among those that the engine converts, None if it is none of them."""
    known = dtype.isnative and dtype.names is None and dtype.subdtype is None
    return dtype.name if known and dtype.name in _engine.NUMBER_TYPES else None


def find_cast(src: np.dtype[Any], dst: np.dtype[Any], factors: Factors | None) -> Cast | None:
    """What the engine makes of numbers of `src`; None if nothing is computed, or NumPy has to cast them first."""
    if factors is None and src == dst:
        return None
    src_name, dst_name = number_type(src), number_type(dst)
    if src_name is None or dst_name not in RESULTS:
        return None
    per_channel = factors is not None and len(factors.scale) > 1
    return Cast(src_name, dst_name, src.itemsize, factors is not None, "C" if per_channel else "")


def as_factors(scale: Any, bias: Any, name: str) -> Factors | None:
    """Scale and bias, checked; None where neither is given."""
    if scale is None and bias is None:
        return None
    factors = (
        _as_factor(1.0 if scale is None else scale, "scale", name),
        _as_factor(0.0 if bias is None else bias, "bias", name),
    )
    n = max(map(len, factors))
    if any(len(f) not in (1, n) for f in factors):
        raise ValueError(f"{name}: scale has {len(factors[0])} values and bias {len(factors[1])}, one for each channel")
    return Factors(*(np.ascontiguousarray(np.broadcast_to(f, n)) for f in factors))


def _as_factor(value: Any, keyword: str, name: str) -> NDArray[np.float32]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name}: {keyword} must be a number or one for each channel, got {value!r}")
    if array.ndim > 1 or not array.size:
        raise ValueError(f"{name}: {keyword} must be a number or one for each channel, got the shape {array.shape}")
    with np.errstate(over="ignore"):
        factor = np.atleast_1d(array).astype(np.float32)
    if not np.isfinite(factor).all():
        raise ValueError(f"{name}: {keyword} must be finite in float32, got {value!r}")
    return factor


def check_channels(factors: Factors, channels: int, pair: str) -> None:
    """Refuse factors for another number of channels."""
    n = len(factors.scale)
    if n not in (1, channels):
        raise ValueError(f"{pair}: axis C is {channels} long, scale and bias are given for {n} channels")


def check_scaled(src: np.dtype[Any], dst: np.dtype[Any], unstated: bool, name: str) -> None:
    """Refuse a type that a scaled result cannot have; `unstated`: it is that of the input."""
    if number_type(dst) not in RESULTS:
        what = f"an input of {src} needs dtype=" if unstated else f"not {dst}"
        raise TypeError(f"{name}: scale= and bias= give {_NAMED}; {what}")


def cast_steps(
    src: np.dtype[Any], between: np.dtype[Any], dst: np.dtype[Any], factors: Factors | None
) -> tuple[tuple[np.dtype[Any], ...], Cast | None]:
    """The dtypes to which NumPy casts one after the other, and what the engine then does on the way.

    Without factors the numbers go from `src` by way of `between` to `dst`; with factors they are computed in float32.
    """
    first = src
    by_numpy: list[np.dtype[Any]] = []
    if factors is not None:
        if number_type(src) is None:
            by_numpy.append(np.dtype(np.float32))
    elif between not in (src, dst):
        by_numpy.append(between)
    if by_numpy:
        first = by_numpy[-1]
    cast = find_cast(first, dst, factors)
    if cast is None and first != dst:
        by_numpy.append(dst)
    return tuple(by_numpy), cast


def sliceable(src: np.dtype[Any], dst: np.dtype[Any]) -> bool:
    """Whether NumPy casts any value without an error, so that a cast can be done piece by piece."""
    return all(dtype.kind in "biuf" or (dtype.kind == "V" and dtype.isbuiltin == 2) for dtype in (src, dst))
