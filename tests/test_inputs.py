"""Every kind of input that an array can be, through every function that converts.

What one function does with one dtype or view is tested where the function is; here all do the same. The tables of
refused arguments are in test_errors.py.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import layoutpack as lp
import reference
from guard import CANARY, Frame, assert_same, counted, filled
from test_bugs import RAGGED, back, edge, to

# ---------------------------------------------------------------------- the functions


class Call(NamedTuple):
    """A function bound to what it needs beside the input, the shape of an input, and NumPy's way to the result."""

    function: Callable
    shape: tuple[int, ...]
    expected: Callable[[np.ndarray], np.ndarray]


def pack(fmt, x):
    return reference.pack(x, fmt, reference.NATURAL.get(fmt, "NCHW"))


def unpack(fmt, shape, x):
    return reference.unpack(x, fmt, reference.NATURAL.get(fmt, "NCHW"), shape)


def planned(src, dst, keywords, x, **options):
    """A plan for whatever comes, and the call of it."""
    dtype = x.dtype if isinstance(x, np.ndarray) else "f8"
    return lp.plan(src, dst, np.shape(x), dtype, **keywords)(x, **options)


def repacked(src, dst, x, **options):
    return lp.repack(x, src, dst, **options)


def in_channels_last(x, **options):
    return lp.to_memory_format(x, lp.channels_last, **options)


def calls(shapes):
    """Every function for tensors of these shapes, by format."""
    image = shapes["NC1HWC0"]
    blocked = reference.packed_shape("NC1HWC0", "NCHW", image)
    found = {
        "repack": Call(partial(repacked, "NCHW", "NHWC"), image, partial(pack, "NHWC")),
        "plan": Call(partial(planned, "NCHW", "NC1HWC0", {"c0": 16}), image, partial(pack, "NC1HWC0")),
        "plan back": Call(
            partial(planned, "NC1HWC0", "NCHW", {"logical_shape": image}), blocked, partial(unpack, "NC1HWC0", image)
        ),
        "to_channels_last": Call(lp.to_channels_last, image, np.array),
        "to_contiguous": Call(lp.to_contiguous, image, np.array),
        "to_memory_format": Call(in_channels_last, image, np.array),
    }
    for fmt in RAGGED:
        shape = shapes[fmt]
        stored = reference.packed_shape(fmt, reference.NATURAL[fmt], shape)
        found[f"to_{fmt.lower()}"] = Call(partial(to(fmt), **edge(fmt)), shape, partial(pack, fmt))
        found[f"from_{fmt.lower()}"] = Call(partial(back(fmt), shape=shape), stored, partial(unpack, fmt, shape))
    return found


CALLS = calls(RAGGED)
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def out_frame(call, dtype):
    """An out that is right for the call, in a frame. Channels-last functions take no other."""
    shape = call.expected(np.zeros(call.shape, "u1")).shape
    last = call.function in (lp.to_channels_last, in_channels_last)
    return Frame(shape, dtype, order=[0, 2, 3, 1] if last else None)


def check(call, x, expected=None):
    """The result for x, fresh and in out, is the one that is due; and x was not written."""
    before = x.tobytes()
    expected = call.expected(np.array(x, copy=True, subok=False)) if expected is None else expected
    for _ in range(2):  # the second call may be a remembered one
        assert_same(call.function(x), expected)
        target = out_frame(call, x.dtype)
        target.bytes[...] = 0xFF
        assert call.function(x, out=target.array) is target.array
        assert_same(target.array, expected)
        assert target.intact()
    assert x.tobytes() == before


# ---------------------------------------------------------------------- dtypes

DTYPES = {
    "void": ["V1", "V3", "V5", "V7", "V13", "V24", "V100"],
    "text": ["S1", "S3", "S9", "U1", "U3"],
    "records": ["u1,f8", [("a", "f4", (3,)), ("b", "u1")], [("a", [("b", "i2"), ("c", "S3")])]],
    "times": ["M8[D]", "M8[ns]", "m8[s]", ">M8[us]", "<m8"],
    "foreign byte order": [">i2", ">f4", ">f8", ">c16", ">U2", np.dtype("u1,>f8").newbyteorder()],
    "narrow and exotic": ["?", "f2", "g", "G"],
}


@each_call
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_dtypes(call, dtypes):
    for dtype in dtypes:
        x = filled(call.shape, dtype)
        for gaps, shift in ((None, 0), ([1] * x.ndim, 0), ([0] * x.ndim, 1)):  # the last two are not aligned
            check(call, Frame.of(x, gaps=gaps, shift=shift).array)


EXTENSIONS = sorted(
    name for name, kind in vars(ml_dtypes).items() if isinstance(kind, type) and name not in ("finfo", "iinfo")
)


@each_call
def test_every_dtype_of_ml_dtypes(call):
    """They move as words of their size, so a whole byte each for int4, whose value does not fill it."""
    for name in EXTENSIONS:
        dtype = np.dtype(getattr(ml_dtypes, name))
        words = filled(call.shape, f"V{dtype.itemsize}")
        x = words.view(dtype)
        result = call.function(x)
        assert result.dtype == dtype
        assert result.tobytes() == call.function(words).tobytes()
        check(call, Frame.of(x, gaps=[1] * x.ndim).array)


@each_call
def test_records_with_holes(call):
    """Equal by their fields. The holes of out may be the fields of other records, and stay."""
    aligned = np.dtype("u1,i8", align=True)
    overlapping = np.dtype({"names": ["f0", "f1"], "formats": ["i4", "i4"], "offsets": [0, 2], "itemsize": 8})
    for dtype, hole in ((aligned, slice(1, 8)), (overlapping, slice(6, 8))):
        x = filled(call.shape, f"V{dtype.itemsize}").view(dtype)
        expected = call.expected(x)
        assert (call.function(x) == expected).all()
        target = out_frame(call, dtype)
        call.function(x, out=target.array)
        assert (target.array == expected).all()
        assert (target.bytes[..., hole] == CANARY).all()
        assert target.intact()


# What an element of zero bytes is; float8_e8m0fnu has no zero, and the calendar begins in 1970.
ZERO = {
    "u1": 0,
    "f4": 0.0,
    "M8[s]": np.datetime64("1970-01-01T00:00:00"),
    "m8[s]": np.timedelta64(0, "s"),
    "S3": b"",
    "bfloat16": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "float8_e8m0fnu": 2.0**-127,
    "float4_e2m1fn": 0,
    "int4": 0,
    "uint2": 0,
}
OTHER = {"M8[s]": np.datetime64("NaT", "s"), "m8[s]": np.timedelta64("NaT", "s"), "S3": b"pad"}


@pytest.mark.parametrize("fmt", RAGGED)
@pytest.mark.parametrize("name", ZERO)
def test_padding_is_zero_bytes_or_fill(fmt, name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = filled(RAGGED[fmt], f"V{dtype.itemsize}").view(dtype)
    order = reference.NATURAL[fmt]
    padding = reference.padding(fmt, order, x.shape)
    packed = to(fmt)(x, **edge(fmt))
    assert (packed[padding] == np.array(ZERO[name], dtype)).all()
    assert not any(packed[padding].tobytes())
    fill = OTHER.get(name, 1)
    assert_same(to(fmt)(x, fill=fill, **edge(fmt)), reference.pack(x, fmt, order, fill=fill))


@each_call
@pytest.mark.parametrize(
    "dtype",
    [object, [("a", "f4"), ("b", object)], [("a", [("b", object, (2,))])], np.dtypes.StringDType()],
    ids=["object", "field", "nested field", "StringDType"],
)
def test_references_are_never_moved(call, dtype):
    x = np.zeros(call.shape, dtype)
    target = out_frame(call, "f4")
    for keywords in ({}, {"out": target.array}):
        with pytest.raises(TypeError, match=r"object|String"):
            call.function(x, **keywords)
    assert (target.buffer == CANARY).all()
    with pytest.raises(TypeError, match=r"object|String|float32"):
        call.function(np.zeros(call.shape, "f4"), out=np.zeros(target.array.shape, dtype))


# ---------------------------------------------------------------------- memory


@each_call
@pytest.mark.parametrize("dtype", ["u1", "f4", "V3"])
def test_any_strides(call, dtype):
    x = filled(call.shape, dtype)
    ndim = x.ndim
    for layout in (
        {"flips": [True] * ndim},
        {"flips": [axis % 2 == 0 for axis in range(ndim)], "gaps": [3] * ndim},
        {"order": range(ndim)[::-1]},
        {"order": [*range(1, ndim), 0], "gaps": [0, 1] * (ndim // 2) + [5] * (ndim % 2), "shift": 1},
    ):
        check(call, Frame.of(x, **layout).array)
    for axis in range(ndim):
        check(call, np.broadcast_to(x[(slice(None),) * axis + (slice(0, 1),)], x.shape))
    check(call, np.broadcast_to(x[(0,) * ndim], x.shape))
    records = np.zeros(x.shape, [("name", "S5"), ("v", dtype)])
    records["v"] = x
    check(call, records["v"])


def changed(axis, length):
    """The calls for tensors with one axis of another length."""
    return calls({fmt: tuple(np.where(np.arange(-len(n), 0) == axis, length, n).tolist()) for fmt, n in RAGGED.items()})


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("stride", [-160, 999, 2**62, -(2**63), 0])
def test_strides_of_axes_of_length_one_mean_nothing(name, stride):
    for call in (changed(axis, 1)[name] for axis in (-1, -2, -3)):
        x = filled(call.shape, "f4")
        strides = [stride if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)]
        check(call, as_strided(x, x.shape, strides), call.expected(x))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_nothing_at_all(name, axis):
    call = changed(axis, 0)[name]
    check(call, np.zeros(call.shape, "f4"))


@each_call
def test_read_only(call):
    """The result is writeable; an out that is not is refused."""
    x = filled(call.shape, "f4")
    x.flags.writeable = False
    check(call, x)
    result = call.function(x)
    assert result.flags.writeable or np.shares_memory(result, x)
    target = out_frame(call, "f4")
    target.array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        call.function(x, out=target.array)
    assert (target.buffer == CANARY).all()


@each_call
@pytest.mark.parametrize("dtype", ["u1", "u2", "V3", "f4", "f8", "c16"])
def test_the_input_is_never_written(call, dtype):
    """It lies on pages where a write kills the process."""
    x = filled(call.shape, dtype)
    for layout in ({}, {"gaps": [1] * x.ndim}, {"order": range(x.ndim)[::-1], "flips": [True] * x.ndim}):
        check(call, Frame.of(x, pages="end", **layout).protect().array)


@each_call
def test_an_out_that_overlaps_itself(call):
    x = counted(call.shape)
    shape = out_frame(call, "f4").array.shape
    dense = np.empty(shape, "f4").strides
    for axis in (axis for axis, n in enumerate(shape) if n > 1):
        for stride in (0, 2):
            memory = np.full(int(np.prod(shape)), 7, "f4")
            out = as_strided(memory, shape, [stride if a == axis else s for a, s in enumerate(dense)])
            with pytest.raises(ValueError, match=r"out.*(share memory|dense)"):
                call.function(x, out=out)
            assert (memory == 7).all()


# ---------------------------------------------------------------------- sizes

MATRICES = ["to_fractal_nz", "to_fractal_zz", "to_fractal_zn", "to_fractal_nn"]
of_fixed_rank = pytest.mark.parametrize("name", [name for name in CALLS if name != "to_contiguous"])


@of_fixed_rank
@pytest.mark.parametrize("change", ["no axes", "one axis", "one axis less", "one axis more"])
def test_another_number_of_axes(name, change):
    call = CALLS[name]
    shape = {"no axes": (), "one axis": (3,), "one axis less": call.shape[1:], "one axis more": (1, *call.shape)}[
        change
    ]
    if (name in MATRICES and len(shape) > 1) or (name == "to_channels_last" and len(shape) > 2):
        pytest.skip("it takes arrays of this rank too")
    target = out_frame(call, "f4")
    for keywords in ({}, {"out": target.array}):
        with pytest.raises(ValueError, match=r"axes|axis"):
            call.function(np.zeros(shape, "f4"), **keywords)
    assert (target.buffer == CANARY).all()


@of_fixed_rank
@pytest.mark.parametrize("x", [3.0, 1j, "NCHW", b"NCHW", np.float32(1)])
def test_scalars(name, x):
    with pytest.raises(ValueError, match=r"axes|axis"):
        CALLS[name].function(x)


def without_memory(shape, dtype):
    """An array of one element that pretends to be of that shape."""
    return as_strided(np.ones(1, dtype), shape, (0,) * len(shape), writeable=False)


@pytest.mark.parametrize("name", CALLS)
def test_more_than_any_memory(name):
    """As NumPy: MemoryError for bytes that nobody has, before any work."""
    call = changed(-1, 2**50)[name]
    with pytest.raises(MemoryError):
        call.function(without_memory(call.shape, "u1"))


@pytest.mark.parametrize("fmt", RAGGED)
def test_more_than_can_be_counted(fmt):
    """As NumPy: ValueError for bytes beyond an index. The padding makes them so many."""
    shape = (*(1,) * (len(RAGGED[fmt]) - 1), 2**61)
    with pytest.raises(ValueError, match="too big"):
        to(fmt)(without_memory(shape, "u1"), **edge(fmt))


# ---------------------------------------------------------------------- kinds of arrays


class Subclass(np.ndarray):
    """Would be found out by its repr and its name."""


@each_call
def test_subclasses_give_the_base_class(call):
    x = filled(call.shape, "f4")
    for kind in (Subclass, np.recarray, np.memmap):
        result = call.function(x.view(kind))
        assert type(result) is np.ndarray
        assert_same(result, call.expected(x))
    out = out_frame(call, "f4").array.view(Subclass)
    assert call.function(x, out=out) is out


@pytest.mark.parametrize("name", ["to_contiguous", *MATRICES])
def test_a_matrix(name):
    x = counted((18, 20))
    result = CALLS[name].function(x.view(np.matrix))
    assert type(result) is np.ndarray
    assert_same(result, CALLS[name].expected(x))


@each_call
def test_masked_arrays_are_refused(call):
    """Their masks would be lost; so would the mask of an out go out of step."""
    x = np.ma.masked_array(counted(call.shape), mask=False)
    target = out_frame(call, "f4")
    for keywords in ({}, {"out": target.array}):
        with pytest.raises(TypeError, match="mask"):
            call.function(x, **keywords)
    assert (target.buffer == CANARY).all()
    with pytest.raises(TypeError, match="mask"):
        call.function(x.data, out=np.ma.masked_array(target.array, copy=False))
    assert (target.buffer == CANARY).all()


@each_call
def test_lists(call):
    x = counted(call.shape, "f8")
    assert_same(call.function(x.tolist()), call.expected(x))


class Sparse:
    """Like the matrices of scipy.sparse: no array protocol."""

    shape, dtype = (18, 20), np.dtype("f4")


class OnDevice:
    """A tensor in the memory of another device."""

    shape, dtype = (2, 9, 3, 5), np.dtype("f4")

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **keywords):
        raise BufferError("not on the CPU")


@pytest.mark.parametrize("x", [None, {}, Sparse(), OnDevice(), iter(())], ids=lambda x: type(x).__name__)
@each_call
def test_what_is_no_array(call, x):
    target = out_frame(call, "f4")
    for keywords in ({}, {"out": target.array}):
        with pytest.raises((TypeError, ValueError)):
            call.function(x, **keywords)
    assert (target.buffer == CANARY).all()


@each_call
def test_torch_tensors(call):
    torch = pytest.importorskip("torch")
    x = filled(call.shape, "f8")
    tensor = torch.from_numpy(x.copy())
    assert_same(call.function(tensor), call.expected(x))
    with pytest.raises(TypeError, match="grad"):
        call.function(tensor.requires_grad_())


# ---------------------------------------------------------------------- refusals write nothing

KEYWORDS = {
    "threads": [0, -1, 1.5, "2", True],
    "copy": [False, 2],
    "groups": [2, "1"],
    "c0": [0, -16, 1.5],
    "channels": [-1, 10**6, 2.5],
    "shape": [(1,), (2, -9, 3, 5), "NCHW"],
    "fill": [[1, 2], "red", object()],
    "dtype": [object, "float33", "V0"],
    "casting": ["maybe", None],
}


@each_call
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_refused_arguments_write_nothing(call, keyword):
    x, target = filled(call.shape, "f4"), out_frame(call, "f4")
    for value in KEYWORDS[keyword]:
        with pytest.raises((TypeError, ValueError)):
            call.function(x, out=target.array, **{keyword: value})
    assert (target.buffer == CANARY).all()


@each_call
def test_a_wrong_out_is_not_written(call):
    x = filled(call.shape, "f4")
    shape = out_frame(call, "f4").array.shape
    longer, shorter = (*shape[:-1], shape[-1] + 1), shape[:-1]
    for out in (
        np.full(longer, 7, "f4"),
        np.full(shorter, 7, "f4"),
        np.full(shape, 7, "i4"),
        np.ones(shape, "?"),
    ):
        for form in (out, (out,), (out, out), [out], out.tolist(), out.data):
            before = out.tobytes()
            with pytest.raises((TypeError, ValueError)):
                call.function(x, out=form)
            assert out.tobytes() == before


# ---------------------------------------------------------------------- in memory order


@pytest.mark.parametrize("dtypes", [*DTYPES.values(), EXTENSIONS], ids=[*DTYPES, "ml_dtypes"])
def test_storage_order_of_every_dtype(dtypes):
    for dtype in dtypes:
        dtype = np.dtype(getattr(ml_dtypes, dtype) if dtypes is EXTENSIONS else dtype)
        x = filled((2, 3, 4), f"V{dtype.itemsize}").view(dtype)
        frame = Frame.of(x, order=[2, 0, 1], flips=[True, False, True], shift=1, pages="start").protect()
        assert_same(lp.storage_order(frame.array), reference.from_bytes(frame.buffer[1:].reshape(24, -1), dtype))
