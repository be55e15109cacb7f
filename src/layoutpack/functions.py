"""The conversions: `repack`, a ``to_`` and a ``from_`` function for every named format, and `plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from layoutpack import _border, _docs, _engine, _plan, _threads
from layoutpack._arrays import (
    Array,
    as_input,
    as_out,
    check_cast,
    check_out,
    dense_strides,
    fill_bytes,
    has_holes,
    share_memory,
)
from layoutpack._conversion import (
    BlockArgument,
    Conversion,
    FormatLike,
    Out,
    as_blocks,
    as_channels,
    as_ufunc,
    check_groups,
    conversion_for,
    convert,
)
from layoutpack.formats import FORMATS, Format, as_format, as_shape


def repack(
    x: ArrayLike,
    src: FormatLike,
    dst: FormatLike,
    /,
    out: Out | None = None,
    *,
    shape: Sequence[SupportsIndex] | None = None,
    channels: SupportsIndex | None = None,
    groups: SupportsIndex = 1,
    c0: BlockArgument = None,
    n0: BlockArgument = None,
    m0: BlockArgument = None,
    fill: Any = None,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    copy: bool | None = True,
    threads: int | None = None,
) -> Array:
    """Move a tensor from one storage format to another.

    Parameters
    ----------
    x : array_like
        The tensor as it is stored in `src`: an ndarray with any strides, an object with ``__dlpack__`` on the CPU or
        ``__array__``, or nested lists.
    src, dst : str or Format
        A plain order such as ``"NHWC"`` (``"...NHWC"`` with leading batch axes), a name of `FORMATS`, a blocked tag
        such as ``"NCHW16c"``, ``"ND"`` for an array of any rank in its own order, or a `Format`.
    {options}

    Returns
    -------
    ndarray
        `out`, or a fresh row-major array on a 64-byte border, which shares nothing with `x` unless `copy` allows it.
        Always of the base class.

    Raises
    ------
    TypeError
        If `x` is a masked array or holds Python objects; if a storage hides lengths or block sizes that are not
        stated; if a cast is not allowed, or a scaled result is not float32, float16 or bfloat16.
    ValueError
        If the number of axes, a shape, a block size or `out` does not fit, or C0 has no default for the dtype; the
        message names format, axis, what was given and what is needed. Nothing has been written then.

    Notes
    -----
    Without `dtype`, `scale` and `bias` bytes are moved, never computed with: NaN payloads and negative zeros survive,
    and the byte order stays.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> x = np.arange(24, dtype=np.float32).reshape(1, 6, 2, 2)
    >>> y = lp.repack(x, "NCHW", "NCHW4c")
    >>> y.shape
    (1, 2, 2, 2, 4)
    >>> y[0, 1, 0, 0]
    array([16., 20.,  0.,  0.], dtype=float32)
    >>> z = lp.repack(y, "NCHW4c", "NC1HWC0", channels=6, c0=16)
    >>> bool((lp.from_nc1hwc0(z, channels=6) == x).all())
    True

    Converted and normalised on the way:

    >>> image = np.array([[[0, 51, 255]]], np.uint8)
    >>> lp.repack(image, "HWC", "NCHW", dtype=np.float32, scale=1 / 127.5, bias=(-1, -1, 0)).ravel().round(2)
    array([-1. , -0.6,  2. ], dtype=float32)
    """
    return convert(
        "repack",
        x,
        src,
        dst,
        out,
        shape,
        channels,
        groups,
        c0,
        n0,
        m0,
        fill,
        dtype,
        casting,
        scale,
        bias,
        copy,
        threads,
    )


# ---- named conversions --------------------------------------------------------------------------------------------


class Options(TypedDict, total=False):
    """Keywords that all conversions share."""

    shape: Sequence[SupportsIndex] | None
    channels: SupportsIndex | None
    groups: SupportsIndex
    c0: BlockArgument
    n0: BlockArgument
    m0: BlockArgument
    fill: Any
    dtype: DTypeLike | None
    casting: str
    scale: ArrayLike | None
    bias: ArrayLike | None
    copy: bool | None
    threads: int | None


class NamedConversion(Protocol):
    """What the ``to_`` and ``from_`` functions have beyond a call: the attributes of a ufunc."""

    __name__: str
    nin: int
    nout: int
    signature: str


class PackFunction(NamedConversion, Protocol):
    """A function ``to_<format>``."""

    def __call__(
        self, x: ArrayLike, /, out: Out | None = None, *, src: FormatLike = ..., **options: Unpack[Options]
    ) -> Array: ...


class UnpackFunction(NamedConversion, Protocol):
    """A function ``from_<format>``."""

    def __call__(
        self, y: ArrayLike, /, out: Out | None = None, *, dst: FormatLike = ..., **options: Unpack[Options]
    ) -> Array: ...


def _packer(name: str, natural: str) -> PackFunction:
    def pack(
        x: ArrayLike,
        /,
        out: Out | None = None,
        *,
        src: FormatLike = natural,
        shape: Sequence[SupportsIndex] | None = None,
        channels: SupportsIndex | None = None,
        groups: SupportsIndex = 1,
        c0: BlockArgument = None,
        n0: BlockArgument = None,
        m0: BlockArgument = None,
        fill: Any = None,
        dtype: DTypeLike | None = None,
        casting: str = "same_kind",
        scale: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        copy: bool | None = True,
        threads: int | None = None,
    ) -> Array:
        return convert(
            function_name,
            x,
            src,
            name,
            out,
            shape,
            channels,
            groups,
            c0,
            n0,
            m0,
            fill,
            dtype,
            casting,
            scale,
            bias,
            copy,
            threads,
        )

    function_name = f"to_{name.lower()}"
    row = FORMATS[name]
    _finish(pack, function_name, f"{core_axes(row.logical)}->{core_axes(row.physical)}", _docs.PACK, row, natural)
    return cast(PackFunction, pack)


def _unpacker(name: str, natural: str) -> UnpackFunction:
    def unpack(
        y: ArrayLike,
        /,
        out: Out | None = None,
        *,
        shape: Sequence[SupportsIndex] | None = None,
        channels: SupportsIndex | None = None,
        dst: FormatLike = natural,
        groups: SupportsIndex = 1,
        c0: BlockArgument = None,
        n0: BlockArgument = None,
        m0: BlockArgument = None,
        fill: Any = None,
        dtype: DTypeLike | None = None,
        casting: str = "same_kind",
        scale: ArrayLike | None = None,
        bias: ArrayLike | None = None,
        copy: bool | None = True,
        threads: int | None = None,
    ) -> Array:
        return convert(
            function_name,
            y,
            name,
            dst,
            out,
            shape,
            channels,
            groups,
            c0,
            n0,
            m0,
            fill,
            dtype,
            casting,
            scale,
            bias,
            copy,
            threads,
        )

    function_name = f"from_{name.lower()}"
    row = FORMATS[name]
    _finish(unpack, function_name, f"{core_axes(row.physical)}->{core_axes(row.logical)}", _docs.UNPACK, row, natural)
    return cast(UnpackFunction, unpack)


def core_axes(pattern: str) -> str:
    """A pattern in the spelling of ufunc signatures: ``"(C1 H W) N1"`` becomes ``"(c1*h*w,n1)"``."""
    fused = False
    axes: list[str] = []
    for token in pattern.lower().split():
        axis = token.strip("()")
        if fused:
            axes[-1] += f"*{axis}"
        else:
            axes.append(axis)
        fused = fused or token.startswith("(")
        if token.endswith(")"):
            fused = False
    return f"({','.join(axes)})"


def _finish(function: Any, name: str, signature: str, doc: str, row: Format, natural: str) -> None:
    function.__name__ = function.__qualname__ = name
    as_ufunc(function, signature)
    about = _docs.ABOUT[row.name]
    function.__doc__ = doc.format(
        name=row.name,
        twin=("from_" if name.startswith("to_") else "to_") + row.name.lower(),
        natural=natural,
        physical=row.physical,
        options=_docs.OPTIONS,
        what=about.what,
        notes=about.notes,
        example=about.to_example if name.startswith("to_") else about.from_example,
    )


to_nc1hwc0 = _packer("NC1HWC0", "NCHW")
from_nc1hwc0 = _unpacker("NC1HWC0", "NCHW")
to_nc1hwc0_c04 = _packer("NC1HWC0_C04", "NCHW")
from_nc1hwc0_c04 = _unpacker("NC1HWC0_C04", "NCHW")
to_ndc1hwc0 = _packer("NDC1HWC0", "NCDHW")
from_ndc1hwc0 = _unpacker("NDC1HWC0", "NCDHW")
to_fractal_nz = _packer("FRACTAL_NZ", "ND")
from_fractal_nz = _unpacker("FRACTAL_NZ", "ND")
to_fractal_zz = _packer("FRACTAL_ZZ", "ND")
from_fractal_zz = _unpacker("FRACTAL_ZZ", "ND")
to_fractal_zn = _packer("FRACTAL_ZN", "ND")
from_fractal_zn = _unpacker("FRACTAL_ZN", "ND")
to_fractal_nn = _packer("FRACTAL_NN", "ND")
from_fractal_nn = _unpacker("FRACTAL_NN", "ND")
to_fractal_z = _packer("FRACTAL_Z", "NCHW")
from_fractal_z = _unpacker("FRACTAL_Z", "NCHW")
to_fractal_z_3d = _packer("FRACTAL_Z_3D", "NCDHW")
from_fractal_z_3d = _unpacker("FRACTAL_Z_3D", "NCDHW")

as_ufunc(repack, "(...)->(...)")
_docs.insert_options(repack, _docs.OPTIONS)


# ---- shapes and plans ---------------------------------------------------------------------------------------------


def packed_shape(
    shape: Sequence[SupportsIndex],
    format: FormatLike,
    *,
    src: FormatLike | None = None,
    dtype: DTypeLike | None = None,
    c0: int | None = None,
    n0: int | None = None,
    m0: int | None = None,
) -> tuple[int, ...]:
    """Shape of the storage array of a tensor.

    Parameters
    ----------
    shape : sequence of int
        Logical shape, in the order of `src`.
    format : str or Format
        Format of the storage.
    src : str or Format, optional
        Plain order of `shape`; the format's own logical order if left out.
    dtype : dtype, optional
        Type of the stored elements; decides C0 by `default_c0` where `c0` is not given.
    c0, n0, m0 : int, optional
        Block sizes in elements, for formats that leave them open; n0 and m0 default to 16.

    Returns
    -------
    tuple of int

    Raises
    ------
    TypeError
        If the format leaves C0 open and neither `c0` nor `dtype` is given.
    ValueError
        If the shape or a block size does not fit the format.

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.packed_shape((1, 20, 8, 8), "NC1HWC0", dtype="float16")
    (1, 2, 8, 8, 16)
    >>> lp.packed_shape((8, 8, 20), "NC1HWC0", src="HWC", c0=32)
    (1, 1, 8, 8, 32)
    """
    dst = as_format(format)
    if src is None:
        return dst.packed_shape(shape, dtype=dtype, c0=c0, n0=n0, m0=m0)
    plain = as_format(src)
    if not plain.is_plain:
        raise ValueError(f"packed_shape: src must be a plain order such as 'NHWC', got {plain.name}")
    sizes = as_shape(shape, plain.name)
    src_axes, dst_axes = _plan.pair_axes(plain, dst, sizes)
    storage = dst.bind(dst_axes, dst.block_sizes({"c0": c0, "n0": n0, "m0": m0}, dtype))
    extents = _plan.solve_extents(plain.bind(src_axes, {}), storage, sizes, None, None)
    return storage.shape(extents)


class Plan:
    """A conversion that is fixed to a shape and a dtype; made by `plan`."""

    __slots__ = ("_arguments", "_conversion", "_fill", "dtype")

    dtype: np.dtype[Any]

    def __init__(self, conversion: Conversion, dtype: np.dtype[Any], fill: bytes, arguments: tuple[Any, ...]) -> None:
        self._conversion, self.dtype, self._fill, self._arguments = conversion, dtype, fill, arguments

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self._conversion.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the result, padding included."""
        return self._conversion.nbytes

    def __call__(self, x: ArrayLike, /, out: Out | None = None, *, threads: int | None = None) -> Array:
        """Convert `x` into `out`, or into a fresh array.

        Parameters
        ----------
        x : array_like
            Of the plan's shape and dtype, with any strides and alignment.
        out : ndarray or tuple of one ndarray, optional
            As for `repack`, of the plan's dtype.
        threads : int, optional
            Threads to use.

        Returns
        -------
        ndarray

        Raises
        ------
        TypeError
            If a dtype is not the plan's.
        ValueError
            If a shape is not the plan's, or `out` cannot be written.
        """
        conversion = self._conversion
        arguments = ("plan", conversion, self._fill)
        known = _border.recall(x, out, arguments, threads)
        if known is not None:
            return known
        source = as_input(x, "plan")
        if source.shape != conversion.src_shape:
            raise ValueError(f"plan: made for {conversion}, got an input of shape {source.shape}")
        if threads is not None:
            threads = _threads.as_thread_count(threads)
        target = None if out is None else as_out(out, "plan")
        for array in (source, target):
            if array is not None and array.dtype != self.dtype:
                raise TypeError(f"plan: made for dtype {self.dtype}, got {array.dtype}")
        if target is None:
            target = _border.empty(conversion.shape, self.dtype, conversion.strides, conversion.nbytes)
        else:
            check_out(target, conversion.shape, f"plan: {conversion.name}")
            if has_holes(self.dtype):
                np.copyto(target, self(source, threads=threads))
                return target
            if share_memory(source, target):
                source = source.copy()
        conversion.run(source, target, self._fill, threads)
        if source is x:
            program = conversion.program(source.strides, target.strides, self._fill)
            _border.remember(source, target, out is None, arguments, conversion, program)
        return target

    def explain(self) -> str:
        """How the plan moves row-major data: groups of boxes, their kernels, chunks and threads.

        Returns
        -------
        str

        Examples
        --------
        >>> import layoutpack as lp
        >>> print(lp.plan("NCHW", "NC1HWC0", (1, 20, 2, 2), "float16").explain().splitlines()[0])
        NCHW -> NC1HWC0 for (1, 20, 2, 2): 256 bytes of float16, 1 thread
        """
        conversion = self._conversion
        groups = conversion.groups(dense_strides(conversion.src_shape, conversion.itemsize), conversion.strides)
        chunks = sum(group.chunks for group in groups)
        streams = any(box.tiling.streams for group in groups for box in group.boxes)
        threads = min(_threads.thread_number(conversion.nbytes, None, chunks), max(chunks, 1))
        return (
            f"{conversion}: {conversion.nbytes} bytes of {self.dtype}, {threads} thread{'s' * (threads > 1)}\n"
            f"instruction set {_engine.isa_chosen()}, {'' if streams else 'no '}streaming stores\n"
            f"{_plan.explain(groups)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _plan_again, self._arguments

    def __repr__(self) -> str:
        return f"<layoutpack.Plan {self._conversion}, {self.dtype}>"


def plan(
    src: FormatLike,
    dst: FormatLike,
    shape: Sequence[SupportsIndex],
    dtype: DTypeLike,
    *,
    logical_shape: Sequence[SupportsIndex] | None = None,
    channels: SupportsIndex | None = None,
    groups: SupportsIndex = 1,
    c0: BlockArgument = None,
    n0: BlockArgument = None,
    m0: BlockArgument = None,
    fill: Any = None,
    streaming: bool | Literal["auto"] = "auto",
) -> Plan:
    """Prepare a conversion for many arrays of one shape and dtype.

    Parameters
    ----------
    src, dst : str or Format
        As for `repack`.
    shape : sequence of int
        Shape of the input arrays.
    dtype : dtype
        Type of input and result.
    logical_shape : sequence of int, optional
        What `repack` calls ``shape``: the logical shape, where the source hides it.
    channels, groups, c0, n0, m0, fill
        As for `repack`.
    streaming : bool or "auto", optional
        Whether large stores bypass the caches. "auto": where input and output are larger than half the last-level
        cache (`show_config` tells the bytes). False keeps the result in the cache for whoever reads it next.

    Returns
    -------
    Plan
        A callable ``p(x, out=None, threads=None)``, safe to call from several threads; it pickles.

    Raises
    ------
    TypeError, ValueError
        As for `repack`.

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    >>> p = lp.plan("NHWC", "NC1HWC0", (8, 224, 224, 3), np.uint8)
    >>> p(np.ones((8, 224, 224, 3), np.uint8)).shape, p.nbytes
    ((8, 1, 224, 224, 32), 12845056)
    """
    dt = np.dtype(dtype)
    check_cast(dt, dt, "no", "plan")
    check_groups(groups, "plan")
    sizes = as_shape(shape, "plan")
    logical = None if logical_shape is None else as_shape(logical_shape, "plan")
    n = None if channels is None else as_channels(channels, "plan")
    blocks = as_blocks(c0, n0, m0, "plan")
    if streaming != "auto" and not isinstance(streaming, bool):
        raise TypeError(f"plan: streaming must be True, False or 'auto', got {streaming!r}")
    stores = None if streaming == "auto" else streaming
    conversion = conversion_for(src, dst, sizes, dt, logical, n, blocks, stores)
    return Plan(
        conversion, dt, fill_bytes(fill, dt, "plan"), (src, dst, sizes, dt, logical, n, blocks, fill, streaming)
    )


def _plan_again(
    src: FormatLike,
    dst: FormatLike,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    logical_shape: tuple[int, ...] | None,
    channels: int | None,
    blocks: tuple[BlockArgument, ...],
    fill: Any,
    streaming: bool | Literal["auto"],
) -> Plan:
    c0, n0, m0 = blocks
    return plan(
        src,
        dst,
        shape,
        dtype,
        logical_shape=logical_shape,
        channels=channels,
        c0=c0,
        n0=n0,
        m0=m0,
        fill=fill,
        streaming=streaming,
    )
