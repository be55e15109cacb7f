"""What every conversion does: check the arguments, find the plan, run it."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from layoutpack import _border, _engine, _plan, _system, _threads
from layoutpack._arrays import (
    Array,
    as_input,
    as_out,
    check_cast,
    check_casting,
    check_out,
    dense_strides,
    fill_bytes,
    has_holes,
    share_memory,
)
from layoutpack._numbers import Factors, as_factors, cast_steps, check_channels, check_scaled, sliceable
from layoutpack._tiles import Cast
from layoutpack.formats import BLOCK_KEYWORDS, Format, as_block, as_format, as_shape

FormatLike = str | Format
BlockArgument = int | tuple[int | None, int | None] | None
Out = Array | tuple[Array]

NO_BLOCKS: tuple[BlockArgument, ...] = (None, None, None)

# A chunk of work: large enough that handing it out costs nothing, small enough that threads end together. Two threads
# take longer than one for 180 KB (13 us and 11) and less for 264 KB (16 and 20); chunks of 64 KB give away 1 or 2 us.
_MIN_CHUNK_BYTES = 192 * 1024
_MAX_CHUNK_BYTES = 32 * 1024 * 1024  # some 10 ms: between two chunks a signal is seen
_CHUNKS_PER_CPU = 8
_SLICE_BYTES = 1024 * 1024  # of an input that NumPy casts at a time: it stays in a second-level cache
_CPUS = _threads.affinity()

# Bytes of input and output from which stores bypass the caches. At 13 of 32 MB streaming takes 1.2 to 1.9 times as long
# (Zen 3; only NHWC to NCHW and FRACTAL_NZ, which write pieces of many lines, gain by it when neighbours on the machine
# fill the cache), at 16 MB it is even, at 20 MB it gains up to twice. Below, the output is still in the cache when the
# caller comes to use it.
STREAMING_THRESHOLD = _system.streaming_threshold()


class Conversion:
    """A pair of formats bound to the shape of an input: everything about a conversion but strides and padding."""

    __slots__ = (
        "_axes",
        "_last",
        "_programs",
        "cast",
        "channels",
        "itemsize",
        "name",
        "nbytes",
        "shape",
        "src_shape",
        "streams",
        "strides",
        "zeros",
    )

    def __init__(
        self,
        src: Format,
        dst: Format,
        src_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None = None,
        channels: int | None = None,
        blocks: tuple[BlockArgument, ...] = NO_BLOCKS,
        streaming: bool | None = None,
        cast: Cast | None = None,
    ) -> None:
        src_axes, dst_axes = _plan.pair_axes(src, dst, src_shape)
        src_given, dst_given = _split_blocks(src, dst, dict(zip(BLOCK_KEYWORDS, blocks, strict=True)))
        in_shape = src.blocks_from_shape(src_shape)
        for keyword, value in src_given.items():
            if value is not None and in_shape.get(keyword, value) != value:
                raise ValueError(
                    f"{src.name} -> {dst.name}: {keyword}={value} differs from the block size {in_shape[keyword]} "
                    f"of the input {src_shape}"
                )
        src_storage = src.bind(src_axes, src.block_sizes({**src_given, **in_shape}, stored=True))
        dst_storage = dst.bind(dst_axes, dst.block_sizes(dst_given, dtype))
        extents = _plan.solve_extents(src_storage, dst_storage, src_shape, shape, channels)
        self.name = f"{src.name} -> {dst.name}"
        self.src_shape = src_shape
        self.shape = dst_storage.shape(extents)
        self.itemsize = dtype.itemsize
        self.strides = dense_strides(self.shape, self.itemsize)
        self.nbytes = math.prod(self.shape) * self.itemsize
        self._axes = _plan.linear_axes(src_storage, dst_storage, extents)
        channel_axis = next((a for a in _plan.CHANNEL_AXES if a in extents), "")
        self.channels = extents.get(channel_axis, 1)
        if cast and cast.channel_axis:
            if all(axis.names != (channel_axis,) for axis in self._axes):
                raise ValueError(f"{self.name}: no axis C of its own, so scale= and bias= must be numbers")
            cast = cast._replace(channel_axis=channel_axis)
        self.cast = cast
        both = self.nbytes + math.prod(src_shape) * (cast.src_width if cast else self.itemsize)
        # None: too little for most ways.
        self.streams = (both >= STREAMING_THRESHOLD or None) if streaming is None else streaming
        self.zeros = bytes(self.itemsize)
        self._programs: dict[Any, tuple[_engine.Program, bool]] = {}
        self._last: tuple[Any, Any] = (None, None)

    def groups(self, src_strides: Sequence[int], dst_strides: Sequence[int]) -> list[_plan.Group]:
        """The plan for these strides."""
        # The stride of an axis of length 1 means nothing and can be any number; padding along that axis would step on.
        dense = dense_strides(self.src_shape, self.cast.src_width if self.cast else self.itemsize)
        src_strides = [d if n == 1 else s for s, n, d in zip(src_strides, self.src_shape, dense, strict=True)]
        chunk = min(max(_MIN_CHUNK_BYTES, self.nbytes // (_CHUNKS_PER_CPU * _CPUS)), _MAX_CHUNK_BYTES)
        return _plan.plan_groups(self._axes, src_strides, dst_strides, self.itemsize, chunk, self.streams, self.cast)

    def program(self, src_strides: tuple[int, ...], dst_strides: tuple[int, ...], fill: bytes) -> _engine.Program:
        """The plan for these strides, ready to run; kept for the next call."""
        return self._bound(src_strides, dst_strides, fill)[0]

    def moves_nothing(self, src_strides: tuple[int, ...], dst_strides: tuple[int, ...], fill: bytes) -> bool:
        """Whether every element of the output has the address, counted from the first, that it has in the input."""
        return self._bound(src_strides, dst_strides, fill)[1]

    def _bound(
        self, src_strides: tuple[int, ...], dst_strides: tuple[int, ...], fill: bytes
    ) -> tuple[_engine.Program, bool]:
        key = src_strides, dst_strides, fill
        last_key, last = self._last  # comparing two keys takes a third of hashing one
        if last_key == key:
            return typing.cast(tuple[_engine.Program, bool], last)
        bound = self._programs.get(key)
        if bound is None:
            if len(self._programs) >= 64:  # a caller with ever new strides must not fill the memory
                self._programs.clear()
            groups = self.groups(src_strides, dst_strides)
            program = _engine.Program(groups, fill, cast=self.cast)
            bound = self._programs[key] = program, not self.cast and _plan.is_identity(groups)
        self._last = key, bound
        return bound

    def run(self, src: Array, dst: Array, fill: bytes, threads: int | None, factors: Factors | None = None) -> None:
        """Fill `dst`, which was checked, from `src`."""
        program = self.program(src.strides, dst.strides, fill)
        program.run(dst, src, _threads.thread_number(self.nbytes, threads, program.chunks), factors)

    def run_by_numpy(
        self,
        src: Array,
        dtypes: Sequence[np.dtype[Any]],
        dst: Array,
        fill: bytes,
        threads: int | None,
        factors: Factors | None = None,
    ) -> None:
        """The same from an input that NumPy has to cast first, to one dtype after the other.

        The cast is done slice by slice, so that what it writes is still in a cache when it is moved. A cast that may
        fail comes before the first byte is written.
        """

        def numpy_cast(part: Array) -> Array:
            with np.errstate(all="ignore"):
                for dtype in dtypes:
                    part = part.astype(dtype, casting="unsafe")
            return part

        if not all(itertools.starmap(sliceable, itertools.pairwise((src.dtype, *dtypes)))):
            self.run(numpy_cast(src), dst, fill, threads, factors)
            return
        most = _SLICE_BYTES // dtypes[-1].itemsize
        channel_axis = self.cast.channel_axis if self.cast else ""
        for src_index, dst_index, axes in _plan.cut_axis(self._axes, src.shape, src.strides, most, channel_axis):
            part, out = numpy_cast(src[src_index]), dst[dst_index]
            groups = _plan.plan_groups(axes, part.strides, out.strides, self.itemsize, _MIN_CHUNK_BYTES, cast=self.cast)
            program = _engine.Program(groups, fill, cast=self.cast)
            program.run(out, part, _threads.thread_number(out.nbytes, threads, program.chunks), factors)

    def __repr__(self) -> str:
        return f"{self.name} for {self.src_shape}"


def _split_blocks(
    src: Format, dst: Format, given: dict[str, BlockArgument]
) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Who a block size is for: a pair names both, a number the destination, or the source if it alone takes it."""
    sides: tuple[dict[str, int | None], dict[str, int | None]] = {}, {}
    for keyword, value in given.items():
        if isinstance(value, tuple):
            pair = value
        elif src.takes(keyword) and not dst.takes(keyword):
            pair = (value, None)
        else:
            pair = (None, value)
        for side, v in zip(sides, pair, strict=True):
            if v is not None:
                side[keyword] = v
    return sides


@lru_cache(maxsize=1024)
def conversion_for(
    src: FormatLike,  # a name where there is one: Python keeps the hash of a str
    dst: FormatLike,
    src_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    shape: tuple[int, ...] | None,
    channels: int | None,
    blocks: tuple[BlockArgument, ...],
    streaming: bool | None = None,
    cast: Cast | None = None,
) -> Conversion:
    return Conversion(as_format(src), as_format(dst), src_shape, dtype, shape, channels, blocks, streaming, cast)


def convert(
    name: str,
    x: object,
    src: FormatLike,
    dst: FormatLike,
    out: Out | None,
    shape: Sequence[SupportsIndex] | None,
    channels: SupportsIndex | None,
    groups: SupportsIndex,
    c0: BlockArgument,
    n0: BlockArgument,
    m0: BlockArgument,
    fill: Any,
    dtype: DTypeLike | None,
    casting: str,
    scale: Any,
    bias: Any,
    copy: bool | None,
    threads: int | None,
    known_as: tuple[Any, ...] | None = None,
) -> Array:
    """What every conversion does: check, plan, run.

    `known_as`: the arguments under which a caller wants to `recall` this call itself.
    """
    arguments = known_as or (src, dst, shape, channels, groups, c0, n0, m0, fill, dtype, casting, scale, bias, copy)
    known = _border.recall(x, out, arguments, threads)
    if known is not None:
        return known
    source = as_input(x, name)
    if type(src) is not str:
        src = as_format(src)
    if type(dst) is not str:
        dst = as_format(dst)
    if groups != 1:
        check_groups(groups, name)
    if threads is not None:
        threads = _threads.as_thread_count(threads)
    if copy is not True and copy is not False and copy is not None:
        raise TypeError(f"{name}: copy= must be True, False or None, got {copy!r}")
    check_casting(casting, name)
    between = source.dtype
    if dtype is not None:
        between = np.dtype(dtype)
        check_cast(source.dtype, between, casting, name)
    factors = None if scale is bias is None else as_factors(scale, bias, name)
    target = None
    result_dtype = between
    if out is not None:
        if copy is not True:
            raise TypeError(f"{name}: copy={copy} has no meaning with out=, which is always filled")
        target = as_out(out, name)
        check_cast(between, target.dtype, casting, name)
        result_dtype = target.dtype
        if shape is None and as_format(dst).is_plain and not as_format(src).is_plain:
            shape = target.shape
    if factors is not None:
        check_scaled(source.dtype, result_dtype, dtype is None and out is None, name)
    by_numpy, cast = cast_steps(source.dtype, between, result_dtype, factors)
    conversion = conversion_for(
        src,
        dst,
        source.shape,
        result_dtype,
        None if shape is None else as_shape(shape, name),
        None if channels is None else as_channels(channels, name),
        as_blocks(c0, n0, m0, name),
        None,
        cast,
    )
    if factors is not None:
        check_channels(factors, conversion.channels, f"{name}: {conversion.name}")
    padding = conversion.zeros if fill is None else fill_bytes(fill, result_dtype, name)
    if target is not None:
        check_out(target, conversion.shape, f"{name}: {conversion.name}")
    elif copy is not True:
        same = not (by_numpy or cast)
        if same and conversion.moves_nothing(source.strides, conversion.strides, padding):
            return _border.view(source, conversion.shape, conversion.strides)
        if copy is False:
            raise ValueError(
                f"{name}: {conversion} with strides {source.strides} needs a copy, which copy=False forbids"
            )
    lasting = copy is True and source is x and not by_numpy and all(map(_lasts, arguments))
    whole = None
    if target is None:
        target = _border.empty(conversion.shape, result_dtype, conversion.strides, conversion.nbytes)
    elif has_holes(result_dtype):
        # The holes are other fields of the same records: only NumPy's assignment leaves them alone.
        whole = _border.empty(conversion.shape, result_dtype, conversion.strides, conversion.nbytes)
        lasting = False
    elif share_memory(source, target):
        if (
            not (by_numpy or cast)
            and source.ctypes.data == target.ctypes.data
            and conversion.moves_nothing(source.strides, target.strides, padding)
        ):
            return target
        source = source.copy()
        lasting = False
    filled = target if whole is None else whole
    if by_numpy:
        conversion.run_by_numpy(source, by_numpy, filled, padding, threads, factors)
    else:
        conversion.run(source, filled, padding, threads, factors)
    if whole is not None:
        np.copyto(target, whole)
    if lasting:
        program = conversion.program(source.strides, target.strides, padding)
        _border.remember(source, target, out is None, arguments, conversion, program, factors)
    return target


def _lasts(argument: object) -> bool:
    """Whether an argument can never change its value."""
    if isinstance(argument, tuple):
        return all(map(_lasts, argument))
    return type(argument) in (type(None), bool, int, float, str, Format) or isinstance(argument, np.dtype | type)


def check_groups(groups: SupportsIndex, name: str) -> None:
    """Refuse any number of convolution groups but one."""
    try:
        n = operator.index(groups)
    except TypeError:
        raise TypeError(f"{name}: groups must be an int, got {groups!r}") from None
    if n != 1:
        raise ValueError(f"{name}: groups must be 1 (grouped formats are not supported yet), got {n}")


def as_channels(channels: SupportsIndex, name: str) -> int:
    try:
        n = operator.index(channels)
    except TypeError:
        raise TypeError(f"{name}: channels must be an int, got {channels!r}") from None
    if n < 0:
        raise ValueError(f"{name}: channels must not be negative, got {n}")
    return n


def as_blocks(c0: BlockArgument, n0: BlockArgument, m0: BlockArgument, name: str) -> tuple[BlockArgument, ...]:
    """The block sizes, checked to be positive ints or pairs of them, since to a cache 16.0 and 16 are the same."""
    if c0 is n0 is m0 is None:
        return NO_BLOCKS

    def check(keyword: str, value: BlockArgument) -> BlockArgument:
        if value is None:
            return None
        if not isinstance(value, tuple):
            return as_block(value, keyword, name)
        if len(value) != 2:
            raise ValueError(f"{name}: {keyword}= must be one number or a pair (source, destination), got {value!r}")
        src, dst = (None if v is None else as_block(v, keyword, name) for v in value)
        return src, dst

    return check("c0", c0), check("n0", n0), check("m0", m0)


def as_ufunc(function: Any, signature: str) -> None:
    """Give a conversion the attributes that ufuncs have."""
    function.nin = function.nout = 1
    function.signature = signature
    function.__signature__ = inspect.signature(function)
