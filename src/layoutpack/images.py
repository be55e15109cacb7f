"""Decoded images to the batch that a network takes: `pack_images`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from layoutpack import _border, _engine, _threads
from layoutpack._arrays import Array, as_input, as_out, check_cast, check_out, dense_strides, share_memory
from layoutpack._conversion import (
    STREAMING_THRESHOLD,
    BlockArgument,
    FormatLike,
    Out,
    as_blocks,
    conversion_for,
    convert,
)
from layoutpack._numbers import RESULTS, as_factors, cast_steps, check_scaled, number_type
from layoutpack.formats import Format, as_format

_NAME = "pack_images"
_CHANNELS = {1: "gray", 3: "RGB", 4: "RGBA"}


def pack_images(
    images: ArrayLike | Sequence[ArrayLike],
    /,
    out: Out | None = None,
    *,
    dst: FormatLike = "NCHW",
    src: str = "HWC",
    dtype: DTypeLike = np.float32,
    scale: float = 1.0,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    reverse_channels: bool = False,
    c0: BlockArgument = None,
    threads: int | None = None,
) -> Array:
    """Convert, normalise and pack images into one batch, reading each byte once and writing each byte once.

    Every value becomes ``(x * scale - mean) / std``.

    Parameters
    ----------
    images : array_like or sequence of array_like
        One image, an array with a batch of them (one axis more, in front), or a list or tuple of images of equal shape
        and dtype, such as decoded frames: with any strides, flipped and cropped views included. They are not stacked
        first. A gray image, alone or in a list, may lack the axis of channels; in a batch it may not, since an array of
        three axes is one image.
    out : ndarray or tuple of one ndarray, optional
        Where the result goes: the exact shape, any strides without overlap, writeable. Padding is written too. The
        result then has its dtype.
    dst : str or Format, optional
        Format of the batch: a plain order or a channel-blocked format, with an axis N.
    src : str, optional
        Order of the axes of an image.
    dtype : dtype, optional
        Type of the result, unless `out` has one. With `scale`, `mean` or `std` float32, float16 or bfloat16. Casts
        follow the rule "same_kind"; these three may also become each other.
    scale : float, optional
        Factor before the mean is subtracted.
    mean, std : float or sequence of float, optional
        One for all channels, or one for each channel of the result (after `reverse_channels`). The figures that
        torchvision's models state belong to values from 0 to 1: with images of uint8 they go with ``scale=1/255``.
    reverse_channels : bool, optional
        RGB from BGR, as OpenCV decodes it, or the other way; a fourth channel stays the last.
    c0 : int, optional
        Block size of the channels, for a blocked `dst`; `default_c0` of the result's dtype unless given.
    threads : int, optional
        Threads to use; see `get_num_threads` for the default.

    Returns
    -------
    ndarray
        `out`, or a fresh row-major array on a 64-byte border; the number of images is the length of its axis N.

    Raises
    ------
    TypeError
        If an image's dtype is not that of the first, is no number, or cannot become `dtype`.
    ValueError
        If an image's shape is not that of the first, if images have other than 1, 3 or 4 channels, if `mean` or `std`
        do not belong to so many channels, or if `out` or `dst` does not fit. The message names the image by its place;
        nothing has been written then.

    See Also
    --------
    repack : any pair of formats, with ``scale=`` and ``bias=``.

    Notes
    -----
    The result is ``x * a + b`` with a = scale / std and b = -mean / std, which are computed in float64 and rounded to
    float32, then one fused multiplication and addition in float32 and, for float16 and bfloat16, one more rounding. So
    it differs from the exact value by at most ``2**-24 * (abs(x * a) + abs(b) + abs(result))`` and half a unit in the
    last place of a shorter result type, up to terms of second order and overflow. It is the same for every number of
    threads and every instruction set.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> frames = [np.full((4, 6, 3), value, np.uint8) for value in (0, 51, 255)]
    >>> batch = lp.pack_images(frames, scale=1 / 255, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> batch.shape, batch[:, 0, 0, 0].round(3)
    ((3, 3, 4, 6), array([-1. , -0.6,  1. ], dtype=float32))
    >>> lp.pack_images(frames, dst="NC1HWC0", dtype=np.float16, reverse_channels=True).shape
    (3, 1, 4, 6, 16)
    """
    lasting = (tuple(values) if isinstance(values, list) else values for values in (mean, std))
    arguments = (_NAME, dst, src, dtype, scale, *lasting, reverse_channels, c0)
    known = _border.recall(images, out, arguments, threads)
    if known is not None:
        return known
    if sorted(src) != ["C", "H", "W"]:
        raise ValueError(f"{_NAME}: src must be an order of H, W and C, got {src!r}")
    scale_and_bias = _scale_and_bias(scale, mean, std)
    if isinstance(images, list | tuple):
        return _pack_sequence(images, out, dst, src, dtype, scale_and_bias, reverse_channels, c0, threads)
    if not (isinstance(images, np.ndarray) or hasattr(images, "__dlpack__") or hasattr(images, "__array__")):
        kind = type(images).__name__
        raise TypeError(f"{_NAME}: images must be an array, or a list or tuple of arrays, got {kind}")
    batch = as_input(images, _NAME)
    axes = "N" + src if batch.ndim == len(src) + 1 else src
    batch = _checked(batch, axes, "images", reverse_channels)
    _batch_axis(as_format(dst))
    result = np.dtype(dtype) if out is None else as_out(out, _NAME).dtype
    _check_values(scale_and_bias, batch.shape[axes.index("C")], "images")
    casting = _casting(batch.dtype, result)
    options = (None, None, 1, c0, None, None, None, result, casting, *scale_and_bias, True, threads)
    return convert(_NAME, batch, axes, dst, out, *options, known_as=arguments if batch is images else None)


def _pack_sequence(
    images: Sequence[ArrayLike],
    out: Out | None,
    dst: FormatLike,
    src: str,
    dtype: DTypeLike,
    scale_and_bias: tuple[Any, Any],
    reverse_channels: bool,
    c0: BlockArgument,
    threads: int | None,
) -> Array:
    """One conversion for each image, all run as one."""
    if not images:
        raise ValueError(f"{_NAME}: a sequence of no images, whose shape nobody knows")
    arrays: list[Array] = []
    for i, image in enumerate(images):
        array = _checked(as_input(image, f"{_NAME}: images[{i}]"), src, f"images[{i}]", reverse_channels)
        if arrays and array.shape != arrays[0].shape:
            raise ValueError(f"{_NAME}: images[{i}] has the shape {array.shape}, images[0] has {arrays[0].shape}")
        if arrays and array.dtype != arrays[0].dtype:
            raise TypeError(f"{_NAME}: images[{i}] has the dtype {array.dtype}, images[0] has {arrays[0].dtype}")
        arrays.append(array)
    first, n = arrays[0], len(arrays)
    target = None if out is None else as_out(out, _NAME)
    result = np.dtype(dtype) if target is None else target.dtype
    check_cast(first.dtype, result, _casting(first.dtype, result), _NAME)
    factors = as_factors(*scale_and_bias, _NAME)
    if factors is not None:
        check_scaled(first.dtype, result, False, _NAME)
    if threads is not None:
        threads = _threads.as_thread_count(threads)
    axis = _batch_axis(as_format(dst))
    _check_values(scale_and_bias, first.shape[src.index("C")], "images[0]")
    by_numpy, numbers = cast_steps(first.dtype, result, result, factors)
    arguments = (src, dst, first.shape, result, None, None, as_blocks(c0, None, None, _NAME))
    one = conversion_for(*arguments, None, numbers)
    if n * (one.nbytes + first.nbytes) >= STREAMING_THRESHOLD:
        one = conversion_for(*arguments, True, numbers)
    shape = (*one.shape[:axis], n, *one.shape[axis + 1 :])
    nbytes = n * one.nbytes
    if target is None:
        target = _border.empty(shape, result, dense_strides(shape, result.itemsize), nbytes)
    else:
        check_out(target, shape, f"{_NAME}: {one.name}")
        arrays = [array.copy() if share_memory(array, target) else array for array in arrays]
    if by_numpy:
        for i, array in enumerate(arrays):
            place = target[(*(slice(None),) * axis, slice(i, i + 1))]
            one.run_by_numpy(array, by_numpy, place, one.zeros, threads, factors)
        return target
    programs = {s: one.program(s, target.strides, one.zeros) for s in {array.strides for array in arrays}}
    each = [programs[array.strides] for array in arrays]
    number = _threads.thread_number(nbytes, threads, sum(program.chunks for program in each))
    _engine.run_many(each, target, target.strides[axis], arrays, number, factors)
    return target


def _checked(image: Array, axes: str, place: str, reverse_channels: bool) -> Array:
    """A view of an image, or of a batch of them, with all its axes and its channels in the order of the result."""
    at = axes.index("C")
    if image.ndim == len(axes) - 1 and "N" not in axes:
        image = np.expand_dims(image, at)
    if image.ndim != len(axes):
        raise ValueError(f"{_NAME}: {place} must have the axes {axes}, got the shape {image.shape}")
    n = image.shape[at]
    if n not in _CHANNELS:
        named = ", ".join(f"{number} ({name})" for number, name in _CHANNELS.items())
        raise ValueError(
            f"{_NAME}: {n} channels in {place} of shape {image.shape} by the order {axes}; there may be {named}. "
            f"src= states another order, and a batch of gray images needs its axis of 1"
        )
    if not reverse_channels or n == 1:
        return image
    if n == 3:
        return image[(*(slice(None),) * at, slice(None, None, -1))]
    return np.take(image, (2, 1, 0, 3), at)  # no strides say this


def _batch_axis(format: Format) -> int:
    """Where a format has its axis N, by itself and in the open."""
    axes = format.physical.split()
    if "N" not in axes or format.is_batched:
        raise ValueError(f"{_NAME}: dst must have an axis N of its own, got {format.name}")
    return axes.index("N")


def _casting(src: np.dtype[Any], dst: np.dtype[Any]) -> str:
    """The casting rule; NumPy takes bfloat16 to float16 for no cast of one kind."""
    return "unsafe" if {number_type(src), number_type(dst)} <= set(RESULTS) else "same_kind"


def _values(values: ArrayLike | None, name: str) -> NDArray[np.float64] | None:
    """Mean or std, one or one for each channel."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size:
        raise ValueError(f"{_NAME}: {name} must be a number or one for each channel, got {values!r}")
    if not np.isfinite(array).all() or (abs(array) > np.finfo(np.float32).max).any():
        raise ValueError(f"{_NAME}: {name} must be finite in float32, got {values!r}")
    return np.atleast_1d(array).astype(np.float64)


def _scale_and_bias(scale: float, mean: ArrayLike | None, std: ArrayLike | None) -> tuple[Any, Any]:
    """What `repack` calls scale and bias, by float64; None and None where nothing changes."""
    if np.ndim(scale) or np.asarray(scale).dtype.kind not in "biuf":
        raise ValueError(f"{_NAME}: scale must be one number, got {scale!r}")
    if not np.isfinite(scale):
        raise ValueError(f"{_NAME}: scale must be finite, got {scale!r}")
    m, d = _values(mean, "mean"), _values(std, "std")
    if scale == 1 and m is d is None:
        return None, None
    if d is not None and not d.all():
        raise ValueError(f"{_NAME}: std must not be zero, got {std!r}")
    if m is not None and d is not None and 1 != m.size != d.size != 1:
        raise ValueError(f"{_NAME}: mean has {m.size} values and std has {d.size}")
    m, d = np.zeros(1) if m is None else m, np.ones(1) if d is None else d
    return tuple((np.float64(scale) / d).tolist()), tuple((-m / d).tolist())


def _check_values(scale_and_bias: tuple[Any, Any], channels: int, place: str) -> None:
    """Refuse a mean or a deviation for another number of channels."""
    n = max(len(values or ()) for values in scale_and_bias)
    if n > 1 and n != channels:
        raise ValueError(f"{_NAME}: mean or std has {n} values, {place} has {channels} channels")
