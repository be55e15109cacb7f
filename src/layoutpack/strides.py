"""Memory formats told by strides: conversion. Detection is compiled, in `_strides`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from layoutpack import _border, _docs, _threads
from layoutpack._arrays import (
    Array,
    as_input,
    as_out,
    check_cast,
    check_out,
    dense_strides,
    has_holes,
    share_memory,
)
from layoutpack._conversion import NO_BLOCKS, Out, as_ufunc, conversion_for
from layoutpack._strides import MemoryFormat, memory_order
from layoutpack.formats import ND


def to_memory_format(
    x: ArrayLike,
    memory_format: MemoryFormat,
    /,
    out: Out | None = None,
    *,
    copy: bool | None = None,
    threads: int | None = None,
    layout: str | None = None,
) -> Array:
    """The same tensor, dense in a memory format.

    Parameters
    ----------
    x : array_like
        Array of 3, 4 or 5 axes (N, C, then space) or as `layout` says; of any rank for the contiguous format. Any
        strides: crops, steps, flips, broadcasts, fields of records.
    memory_format : MemoryFormat
        `contiguous_format`, `channels_last_1d`, `channels_last` or `channels_last_3d`.
    {options}

    Returns
    -------
    ndarray
        The logical shape of `x` over memory in that format, with canonical strides: `out`, a view of `x` where its
        bytes already lie so, or a fresh array on a 64-byte border.

    Raises
    ------
    TypeError
        If `x` is a masked array or holds Python objects; if `memory_format` is no MemoryFormat.
    ValueError
        If the number of axes does not fit; if `copy` is False and a copy is needed; if `out` has another shape or is
        not dense in the format.

    See Also
    --------
    to_channels_last : the channels-last format that the rank picks.
    to_contiguous : row-major memory.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    >>> y = lp.to_memory_format(x, lp.channels_last)
    >>> y.strides, bool((y == x).all())
    ((32, 4, 16, 8), True)
    """
    if not isinstance(memory_format, MemoryFormat):
        raise TypeError(f"to_memory_format: memory_format must be a member of MemoryFormat, got {memory_format!r}")
    return _convert("to_memory_format", x, memory_format, out, copy, threads, layout)


def to_channels_last(
    x: ArrayLike,
    /,
    out: Out | None = None,
    *,
    copy: bool | None = None,
    threads: int | None = None,
    layout: str | None = None,
) -> Array:
    """The same tensor over channels-last memory.

    Parameters
    ----------
    x : array_like
        Array of 3 (N, C, L), 4 (N, C, H, W) or 5 (N, C, D, H, W) axes, or as `layout` says, with any strides.
    {options}

    Returns
    -------
    ndarray
        The logical shape of `x` with canonical channels-last strides: `out`, a view of `x` where its bytes already
        lie so (a batch of one made by ``[None]`` included), or a fresh array on a 64-byte border.

    Raises
    ------
    TypeError
        If `x` is a masked array or holds Python objects.
    ValueError
        If `x` has another number of axes; if `copy` is False and a copy is needed; if `out` has another shape or is
        not dense in channels-last order.

    See Also
    --------
    is_channels_last : whether nothing needs to be done.
    to_contiguous : row-major memory.

    Notes
    -----
    PyTorch's channels_last and channels_last_3d, and by the same rule one for (N, C, L). Unlike ``Tensor.to``, which
    goes by the order of strides, an array that is ordered but has gaps is packed.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    >>> y = lp.to_channels_last(x)
    >>> y.shape, y.strides, lp.storage_order(y).tolist()
    ((1, 2, 2, 2), (32, 4, 16, 8), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0])
    >>> lp.to_channels_last(y) is y, bool(np.shares_memory(lp.to_channels_last(y[0][None]), y))
    (True, True)
    """
    return _convert("to_channels_last", x, None, out, copy, threads, layout)


def to_contiguous(
    x: ArrayLike,
    /,
    out: Out | None = None,
    *,
    copy: bool | None = None,
    threads: int | None = None,
    layout: str | None = None,
) -> Array:
    """The same array over dense row-major memory.

    Parameters
    ----------
    x : array_like
        Array of any rank and any strides: crops, steps, flips, broadcasts, fields of records.
    {options}

    Returns
    -------
    ndarray
        The shape of `x` with canonical row-major strides: `out`, a view of `x` where its bytes already lie so, or a
        fresh array on a 64-byte border.

    Raises
    ------
    TypeError
        If `x` is a masked array or holds Python objects.
    ValueError
        If `copy` is False and a copy is needed; if `out` has another shape or is not row-major.

    See Also
    --------
    is_contiguous : whether nothing needs to be done.
    to_channels_last : channels-last memory.

    Notes
    -----
    As `numpy.ascontiguousarray`, but the strides of axes of length 1 come out canonical, and 0-d stays 0-d.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> x = np.arange(12).reshape(3, 4)[::-1, ::2]
    >>> lp.to_contiguous(x).tolist()
    [[8, 10], [4, 6], [0, 2]]
    """
    return _convert("to_contiguous", x, MemoryFormat.contiguous_format, out, copy, threads, layout)


def _convert(
    name: str,
    x: object,
    memory_format: MemoryFormat | None,
    out: Out | None,
    copy: bool | None,
    threads: int | None,
    layout: str | None,
) -> Array:
    source = as_input(x, name)
    if threads is not None:
        threads = _threads.as_thread_count(threads)
    if copy is not True and copy is not False and copy is not None:
        raise TypeError(f"{name}: copy= must be True, False or None, got {copy!r}")
    order = memory_order(source.ndim, memory_format, layout)
    strides = dense_strides(source.shape, source.itemsize, None if order == tuple(range(source.ndim)) else order)
    conversion = conversion_for(ND, ND, source.shape, source.dtype, None, None, NO_BLOCKS)
    if out is None:
        if copy is not True:
            if source.strides == strides:
                return source
            if conversion.moves_nothing(source.strides, strides, conversion.zeros):
                return _border.view(source, source.shape, strides)
            if copy is False:
                raise ValueError(
                    f"{name}: an array of shape {source.shape} and strides {source.strides} needs a copy to get "
                    f"strides {strides}, which copy=False forbids"
                )
        target = _border.empty(source.shape, source.dtype, strides, conversion.nbytes)
    else:
        if copy is not None:
            raise TypeError(f"{name}: copy={copy} has no meaning with out=, which is always filled")
        target = as_out(out, name)
        check_cast(source.dtype, target.dtype, "same_kind", name)
        check_out(target, source.shape, name)
        _check_dense(target, order, name)
        if has_holes(target.dtype):  # other fields of the same records, which only NumPy's assignment leaves alone
            np.copyto(target, source, casting="same_kind")
            return target
        if share_memory(source, target):
            source = source.copy()
        if source.dtype != target.dtype:
            source = source.astype(target.dtype, casting="same_kind")
            conversion = conversion_for(ND, ND, source.shape, source.dtype, None, None, NO_BLOCKS)
    conversion.run(source, target, conversion.zeros, threads)
    return target


def _check_dense(out: Array, order: tuple[int, ...], name: str) -> None:
    needed = dense_strides(out.shape, out.itemsize, order)
    wrong = [i for i, n in enumerate(out.shape) if n > 1 and out.strides[i] != needed[i]]
    if out.size and wrong:
        raise ValueError(
            f"{name}: out= must be dense with strides {needed}, got {out.strides} (axis {wrong[0]}: "
            f"{out.strides[wrong[0]]} instead of {needed[wrong[0]]})"
        )


_OPTIONS = """out : ndarray or tuple of one ndarray, optional
        Where the result goes: the same shape, dense in the format, writeable. May overlap `x`.
    copy : bool or None, optional
        None: a view where the bytes already agree. True: always a fresh array. False: a view or ValueError.
    threads : int, optional
        Threads to use; see `get_num_threads` for the default.
    layout : str, optional
        What the axes of `x` are, such as ``"CHW"`` for a bare image. Without it an array of 3 axes is (N, C, L)."""

for _function in (to_memory_format, to_channels_last, to_contiguous):
    _docs.insert_options(_function, _OPTIONS)
    as_ufunc(_function, "(...)->(...)")
