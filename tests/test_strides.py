"""Memory formats told by strides, and the conversions between them."""

import copy
import doctest
import inspect
import itertools
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import layoutpack as lp
from guard import Frame, assert_same, canonical_strides, counted, filled
from layoutpack import _strides
from layoutpack._strides import memory_order

GOLDEN = Path(__file__).parent / "golden"
TORCH = [json.loads(line) for line in (GOLDEN / "memory_format_torch.jsonl").read_text().splitlines()]
NUMPY = [json.loads(line) for line in (GOLDEN / "memory_format_numpy.jsonl").read_text().splitlines()]

FORMATS = list(lp.MemoryFormat)
BY_RANK = {3: lp.channels_last_1d, 4: lp.channels_last, 5: lp.channels_last_3d}
LETTERS = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
DETECTORS = [
    lp.is_contiguous,
    lp.is_channels_last,
    lp.is_strides_like_channels_last,
    lp.memory_formats,
    lp.suggest_memory_format,
    lp.storage_order,
    lp.storage_offsets,
]

# ---------------------------------------------------------------------- arrays


class Untouched(np.ndarray):
    """An array without memory behind its strides: a failing test must not print its elements."""

    def __repr__(self):
        return f"strided({self.shape}, {self.strides}, {self.dtype.str!r})"


def strided(shape, strides, dtype="f4"):
    """An array with exactly these byte strides, whose elements must not be touched."""
    x = as_strided(np.zeros(1, dtype), shape, strides, writeable=False).view(Untouched)
    assert (x.shape, x.strides) == (tuple(shape), tuple(strides))
    return x


def numbered(shape, strides, dtype="i4"):
    """An array with these element strides, none negative, over memory that counts 0, 1, 2 ... from its start."""
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1)
    return as_strided(np.arange(span, dtype=dtype), shape, [s * np.dtype(dtype).itemsize for s in strides])


def over_channels_last(x):
    """A copy of x in dense channels-last memory, made by NumPy alone."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


# ---------------------------------------------------------------------- oracles


def image_axes(ndim):
    """C and the spatial axes from fastest to slowest."""
    return [1, *reversed(range(2, ndim))]


def byte_offsets(shape, strides):
    """The offset of every element from the first one, in index order."""
    return [sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)]


def oracle_dense(x, slow_to_fast):
    """Whether a walk over all elements in that order of the axes is a walk through memory element by element."""
    walk = byte_offsets([x.shape[a] for a in slow_to_fast], [x.strides[a] for a in slow_to_fast])
    return walk == list(range(0, len(walk) * x.itemsize, x.itemsize)) if x.itemsize else set(walk) <= {0}


def oracle_ordered(x, image, batch):
    """Whether each stride reaches past what the faster axes cover, unless C and the spatial axes all coincide."""
    if not x.size or not x.itemsize:
        return False
    axes = [*image, *batch]
    covered = [x.itemsize, *(x.strides[a] * x.shape[a] for a in axes)]
    grows = all(x.strides[a] >= reach for a, reach in zip(axes, covered, strict=False))
    return grows and any(x.shape[a] > 1 or x.strides[a] != x.strides[image[0]] for a in image)


def oracle_storage(x):
    """The indices of all elements by address, or None where they overlap or leave gaps."""
    places = sorted(zip(byte_offsets(x.shape, x.strides), np.ndindex(*x.shape), strict=True))
    packed = all(after[0] - before[0] == x.itemsize for before, after in itertools.pairwise(places))
    return [index for _, index in places] if packed else None


# ---------------------------------------------------------------------- published examples


def test_example_of_the_pytorch_article():
    x = np.arange(8).reshape(1, 2, 2, 2)
    assert [s // x.itemsize for s in x.strides] == [8, 4, 2, 1]
    y = lp.to_channels_last(x)
    assert y.shape == x.shape
    assert [s // y.itemsize for s in y.strides] == [8, 1, 4, 2]
    assert lp.storage_order(y).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert lp.storage_order(x).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((8, 3, 32), (96, 1, 3)),
        ((8, 3, 32, 32), (3072, 1, 96, 3)),
        ((8, 3, 32, 32, 32), (98304, 1, 3072, 96, 3)),
    ],
)
def test_examples_of_the_rfc(shape, strides):
    assert lp.channels_last_strides(shape) == strides
    x = lp.to_channels_last(np.zeros(shape, "u1"))
    assert x.strides == strides
    assert lp.memory_formats(x) == {BY_RANK[len(shape)]}
    assert lp.suggest_memory_format(x) is BY_RANK[len(shape)]


# ---------------------------------------------------------------------- answers of PyTorch


def torch_name(row):
    return "-".join([row["kind"], "x".join(map(str, row["shape"])), "_".join(map(str, row["strides_elems"]))])


def torch_answers(row):
    """Dense and ordered in the channels-last format of the rank, and its strides, from the fields that state them."""
    if len(row["shape"]) == 3:
        answers = row["cl1d"]
        return answers["is_channels_last_1d"], answers["strides_like_cl1d"], answers["cl1d_strides"]
    threed = len(row["shape"]) == 5
    dense = row["is_channels_last_3d" if threed else "is_channels_last"]
    return dense, row["strides_like_cl3d" if threed else "strides_like_cl"], row["cl_strides"]


each_torch_row = pytest.mark.parametrize("row", TORCH, ids=torch_name)
each_filled_torch_row = pytest.mark.parametrize("row", [row for row in TORCH if 0 not in row["shape"]], ids=torch_name)


def test_number_of_torch_rows():
    assert len(TORCH) == 424
    empty = [row for row in TORCH if 0 in row["shape"]]
    assert len(empty) == 29
    # The one deliberate difference: all of them are dense for us, and these not for PyTorch.
    assert sum(not torch_answers(row)[0] for row in empty) == 17


@each_torch_row
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16", "V5"])
def test_detection_like_torch(row, dtype):
    itemsize = np.dtype(dtype).itemsize
    shape, ndim = row["shape"], len(row["shape"])
    x = strided(shape, [s * itemsize for s in row["strides_elems"]], dtype)
    dense, ordered, strides = torch_answers(row)
    dense |= 0 in shape

    assert lp.is_contiguous(x) is row["is_contiguous"]
    assert lp.is_channels_last(x) is dense
    for memory_format in (lp.channels_last_1d, lp.channels_last, lp.channels_last_3d):
        assert lp.is_contiguous(x, memory_format) is (dense and memory_format is BY_RANK[ndim])
    expected = {lp.contiguous_format: row["is_contiguous"], BY_RANK[ndim]: dense}
    assert lp.memory_formats(x) == {memory_format for memory_format, holds in expected.items() if holds}

    assert lp.is_strides_like_channels_last(x) is ordered
    suggested = lp.suggest_memory_format(x)
    assert suggested is (BY_RANK[ndim] if ordered else lp.contiguous_format)
    if ndim > 3:
        assert suggested.name == row["suggest"]

    assert lp.channels_last_strides(shape) == tuple(strides)
    exact = ordered and tuple(row["strides_elems"]) == lp.channels_last_strides(shape)
    if ndim > 3:
        assert exact is (row["suggest_exact"] != "contiguous_format")


@each_torch_row
def test_storage_like_torch(row):
    x = numbered(row["shape"], row["strides_elems"])
    offsets = lp.storage_offsets(x)
    assert offsets.dtype == np.int64
    np.testing.assert_array_equal(offsets, x)  # its memory counts 0, 1, 2 ...
    if row["non_overlapping_and_dense"]:
        np.testing.assert_array_equal(lp.storage_order(x), np.arange(x.size))
    else:
        with pytest.raises(ValueError, match=r"elements (overlap|leave gaps)"):
            lp.storage_order(x)


@each_filled_torch_row
def test_conversion_like_torch(row):
    x = numbered(row["shape"], row["strides_elems"])
    dense, _, strides = torch_answers(row)

    y = lp.to_channels_last(x)
    assert_same(y, x)
    assert y.strides == tuple(s * x.itemsize for s in strides)  # canonical, also where PyTorch keeps odd ones
    assert np.shares_memory(x, y) is dense
    if len(row["shape"]) > 3:
        assert dense is row["contiguous_cl_returns_self"]

    z = lp.to_contiguous(x)
    assert_same(z, x)
    assert z.strides == canonical_strides(x.shape, x.itemsize)
    assert np.shares_memory(x, z) is row["contiguous_returns_self"]


# ---------------------------------------------------------------------- cases from bug reports


def build(row):
    def fresh(shape, strides):
        return numbered(shape, strides, "f4")

    return eval(row["build"], {"__builtins__": {}, "A": fresh, "np": np})


def test_number_of_numpy_rows():
    assert [row["id"] for row in NUMPY] == [f"L{i:02}" for i in range(1, 42, 2)]


@pytest.mark.parametrize("row", NUMPY, ids=lambda row: row["id"])
def test_cases_from_bug_reports(row):
    x = build(row)
    assert [list(x.shape), list(x.strides), x.itemsize] == [row["shape"], row["strides_bytes"], row["itemsize"]]
    assert lp.is_contiguous(x) is row["dense_row_major"]
    assert lp.is_channels_last(x) is row["dense_channels_last"]
    assert lp.is_strides_like_channels_last(x) is row["order_channels_last"]
    canonical = row["canonical_channels_last_strides_bytes"]
    assert [s * x.itemsize for s in lp.channels_last_strides(x.shape)] == canonical

    y = lp.to_channels_last(x)
    assert_same(y, x)
    assert list(y.strides) == canonical
    assert np.shares_memory(x, y) is row["dense_channels_last"]
    z = lp.to_contiguous(x)
    assert_same(z, x)
    assert z.strides == canonical_strides(x.shape, x.itemsize)
    assert np.shares_memory(x, z) is row["dense_row_major"]


# ---------------------------------------------------------------------- detection against the oracles


@st.composite
def arrays_by_strides(draw, least=0, most=6):
    """Arrays that are never touched: near-dense ones in a random order of axes, then a few strides spoilt."""
    ndim = draw(st.integers(least, most))
    dtype = np.dtype(draw(st.sampled_from(["u1", "u2", "f4", "f8", "c16", "V5"])))
    shape = draw(st.lists(st.sampled_from([1, 1, 2, 3, 2, 3, 2, 3, 0]), min_size=ndim, max_size=ndim))
    orders = [list(range(ndim)), [0, *range(2, ndim), 1]] if ndim > 2 else [list(range(ndim))]
    order = draw(st.one_of(st.sampled_from(orders), st.permutations(range(ndim))))
    strides, step = [0] * ndim, dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    huge = st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1, 2**62, 2**61 + 4, 2**32, -(2**31)])
    odd = st.one_of(st.integers(-70, 70), st.sampled_from([0, 1, -dtype.itemsize, dtype.itemsize, step]), huge)
    for axis in range(ndim):
        if draw(st.sampled_from([False, False, False, shape[axis] == 1, True])):
            strides[axis] = draw(odd)
    return strided(shape, strides, dtype)


@given(arrays_by_strides())
@example(strided((1, 1, 1, 1), (-(2**63),) * 4))
@example(strided((1, 1, 1, 1), (2**63 - 1,) * 4))
@example(strided((2, 2, 2, 2), (2**62, 2**62, 2**62, 2**62)))
@example(strided((2, 3, 3, 1), (2**63 - 1, 4, 2**62, 12)))  # 3 * 2**62 is beyond 64 bits
@example(strided((2, 3, 1, 2), (2**63 - 1, 4, 2**62, 12)))
@example(strided((2, 3, 2, 1), (2**63 - 1, 4, 2**62, 12)))
@example(strided((1, 3, 1, 1), (2**63 - 1, 4, 2**63 - 1, 2**63 - 1)))
@example(strided((2, 3, 4, 4), (200, 2, 40, 10)))  # ordered, but elements of 4 bytes overlap
def test_detection(x):
    ndim = x.ndim
    dense_in = set()
    if not x.size or oracle_dense(x, range(ndim)):
        dense_in.add(lp.contiguous_format)
    ordered = False
    if ndim in BY_RANK:
        if not x.size or oracle_dense(x, [0, *range(2, ndim), 1]):
            dense_in.add(BY_RANK[ndim])
        ordered = oracle_ordered(x, image_axes(ndim), [0])

    assert lp.memory_formats(x) == dense_in
    for memory_format in FORMATS:
        assert lp.is_contiguous(x, memory_format) is (memory_format in dense_in)
    assert lp.is_contiguous(x) is (lp.contiguous_format in dense_in)
    assert lp.is_channels_last(x) is (BY_RANK.get(ndim) in dense_in)
    assert lp.is_strides_like_channels_last(x) is ordered
    assert lp.suggest_memory_format(x) is (BY_RANK[ndim] if ordered else lp.contiguous_format)


@given(arrays_by_strides(3, 5))
def test_facts_about_the_answers(x):
    formats = lp.memory_formats(x)
    if x.size and (x.shape[1] == 1 or math.prod(x.shape[2:]) == 1):
        assert len(formats) in (0, 2)
    elif x.size:
        assert len(formats) < 2
    if lp.is_strides_like_channels_last(x):
        assert min(x.strides) > 0
    row_major = strided(x.shape, canonical_strides([max(n, 1) for n in x.shape], x.itemsize), x.dtype)
    assert not lp.is_strides_like_channels_last(row_major)
    assert lp.is_contiguous(row_major)
    ours = strided(x.shape, [s * x.itemsize for s in lp.channels_last_strides(x.shape)], x.dtype)
    assert lp.is_channels_last(ours)
    assert lp.is_strides_like_channels_last(ours) is (x.size > 0 and max(x.shape[1:]) > 1)


@pytest.mark.parametrize("ndim", [0, 1, 2, 6, 32, 64])
def test_other_ranks_are_no_error(ndim):
    x = np.zeros((1,) * ndim)
    assert lp.is_contiguous(x) is True
    assert lp.is_channels_last(x) is False
    assert lp.is_strides_like_channels_last(x) is False
    assert lp.memory_formats(x) == {lp.contiguous_format}
    assert lp.suggest_memory_format(x) is lp.contiguous_format
    assert not any(lp.is_contiguous(x, memory_format) for memory_format in FORMATS[1:])


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4), (2, 3, 0, 4), (0, 0, 0, 0), (0, 3, 5), (1, 2, 3, 4, 0)])
def test_no_elements_are_dense_in_every_format_of_the_rank(shape):
    for x in (np.zeros(shape), strided(shape, [7 * axis - 9 for axis in range(len(shape))])):
        assert lp.memory_formats(x) == {lp.contiguous_format, BY_RANK[len(shape)]}
        assert lp.is_channels_last(x)
        assert not lp.is_strides_like_channels_last(x)
        assert lp.storage_order(x).shape == (0,)
        assert lp.storage_offsets(x).shape == shape


def test_size_one_strides_count_only_for_the_order():
    image = np.zeros((5, 6, 3), "f4").transpose(2, 0, 1)
    for batch in (image[None], np.expand_dims(image, 0), np.stack([image.transpose(1, 2, 0)]).transpose(0, 3, 1, 2)):
        assert lp.is_channels_last(batch)
    assert not lp.is_strides_like_channels_last(image[None])
    for stride in (0, 12, -400, 2**63 - 1, -(2**63)):
        assert lp.is_channels_last(strided((1, 3, 5, 6), (stride, 4, 72, 12)))
        assert lp.is_strides_like_channels_last(strided((1, 3, 5, 6), (stride, 4, 72, 12))) is (stride >= 360)


def test_strides_come_from_the_array_itself():
    # A buffer view of this array states the strides (256, 256, 32, 4): the mark of channels-last would be lost.
    x = numbered((4, 1, 8, 8), (64, 1, 8, 1), "f4")
    assert lp.is_strides_like_channels_last(x)
    assert not lp.is_strides_like_channels_last(np.asarray(memoryview(x)))


def test_elements_without_bytes():
    x = np.zeros((2, 3, 4, 5), np.dtype([]))
    assert lp.memory_formats(x) == {lp.contiguous_format, lp.channels_last}
    assert not lp.is_strides_like_channels_last(x)
    assert lp.storage_order(x).shape == (120,)
    assert not lp.storage_offsets(x, unit="bytes").any()
    with pytest.raises(ValueError, match="unit='bytes'"):
        lp.storage_offsets(x)
    apart = strided((2, 3, 4, 5), (60, 1, 15, 3), np.dtype([]))
    assert lp.memory_formats(apart) == frozenset()
    assert not lp.is_strides_like_channels_last(apart)


# ---------------------------------------------------------------------- layout=


def test_bare_image():
    image = np.zeros((480, 640, 3), "u1").transpose(2, 0, 1)
    assert lp.is_channels_last(image, layout="CHW")
    assert lp.is_strides_like_channels_last(image, layout="CHW")
    assert lp.suggest_memory_format(image, layout="CHW") is lp.channels_last
    assert lp.memory_formats(image, layout="CHW") == {lp.channels_last}
    assert lp.is_contiguous(image, lp.channels_last, layout="CHW")
    assert not lp.is_contiguous(image, lp.channels_last_1d, layout="CHW")
    assert not lp.is_channels_last(image)  # read as (N, C, L)
    assert not lp.is_contiguous(image, lp.channels_last)
    assert lp.channels_last_strides(image.shape, layout="CHW") == image.strides == (1, 1920, 3)


@pytest.mark.parametrize("layout", ["NHWC", "NLC", "NDHWC", "HWC", "LC", "WC", "DHC"])
def test_row_major_with_channels_behind_is_channels_last(layout):
    x = np.zeros(range(2, 2 + len(layout)), "u1")
    spatial = sum(letter in "DHWL" for letter in layout)
    assert lp.is_channels_last(x, layout=layout)
    assert lp.is_strides_like_channels_last(x, layout=layout)
    assert lp.memory_formats(x, layout=layout) == {lp.contiguous_format, FORMATS[spatial]}
    assert lp.suggest_memory_format(x, layout=layout) is FORMATS[spatial]
    assert lp.channels_last_strides(x.shape, layout=layout) == x.strides


@given(arrays_by_strides(3, 5), st.data())
def test_layout_names_axes_in_any_order(x, data):
    axes = data.draw(st.permutations(range(x.ndim)))
    layout = "".join(LETTERS[x.ndim][axis] for axis in axes)
    y = x.transpose(axes)
    assert lp.is_channels_last(y, layout=layout) is lp.is_channels_last(x)
    assert lp.is_strides_like_channels_last(y, layout=layout) is lp.is_strides_like_channels_last(x)
    assert lp.suggest_memory_format(y, layout=layout) is lp.suggest_memory_format(x)
    assert lp.is_contiguous(y, layout=layout) is lp.is_contiguous(y)
    strides = lp.channels_last_strides(x.shape)
    assert lp.channels_last_strides(y.shape, layout=layout) == tuple(strides[axis] for axis in axes)
    order = memory_order(x.ndim)
    assert [axes[axis] for axis in memory_order(x.ndim, layout=layout)] == list(order)


@given(arrays_by_strides(2, 4), st.data())
def test_layout_without_batch_is_a_batch_of_one(x, data):
    letters = LETTERS[x.ndim + 1][1:]
    axes = data.draw(st.permutations(range(x.ndim)))
    y = x.transpose(axes)
    layout = "".join(letters[axis] for axis in axes)
    batched = strided((1, *x.shape), (2**63 - 1, *x.strides), x.dtype)
    assert lp.is_channels_last(y, layout=layout) is lp.is_channels_last(batched)
    # The reach of a bare image may leave 64 bits, which no batch stride can follow.
    ordered = oracle_ordered(x, [0, *reversed(range(1, x.ndim))], [])
    assert lp.is_strides_like_channels_last(y, layout=layout) is ordered
    if max((n * s for n, s in zip(x.shape, x.strides, strict=True)), default=0) < 2**63:
        assert lp.is_strides_like_channels_last(batched) is ordered


def test_bare_image_of_huge_strides():
    assert lp.is_strides_like_channels_last(strided((3, 3, 1), (4, 2**62, 12)), layout="CHW")
    assert lp.is_strides_like_channels_last(strided((3, 2, 2), (4, 2**62, 2**61)), layout="CHW")
    assert not lp.is_strides_like_channels_last(strided((3, 2, 3), (4, 2**63 - 1, 2**62)), layout="CHW")


@pytest.mark.parametrize("detect", [*DETECTORS, lp.to_channels_last])
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("NCHW", "'NCHW' names 4 axes.* 3"),
        ("CW", "'CW' names 2 axes.* 3"),
        ("CHX", "unknown axis 'X'"),
        ("chw", "unknown axis 'c'"),
        ("C W", "unknown axis ' '"),
        ("CHH", "twice"),
        ("NHW", "needs C and at least one"),
        ("NC", "needs C and at least one"),
        ("", "needs C and at least one"),
        ("CHL", "L is the only spatial axis"),
    ],
)
def test_layouts_that_make_no_sense(detect, layout, message):
    with pytest.raises(ValueError, match=message):
        detect(np.zeros((3, 4, 5)), layout=layout)
    with pytest.raises(ValueError, match=message):
        lp.channels_last_strides((3, 4, 5), layout=layout)


@pytest.mark.parametrize("detect", DETECTORS)
def test_layout_is_a_string(detect):
    for layout in (["C", "H", "W"], b"CHW", 3):
        with pytest.raises(TypeError, match="layout must be a string"):
            detect(np.zeros((3, 4, 5)), layout=layout)
    detect(np.zeros((3, 4, 5)), layout=np.str_("CHW"))


# ---------------------------------------------------------------------- arguments


class ByArray:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


class ByDLPack:
    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class ElsewhereByDLPack(ByDLPack):
    def __dlpack__(self, **options):
        raise BufferError("memory of another device")


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    "wrap",
    [ByArray, ByDLPack, memoryview, np.ma.MaskedArray, lambda x: x.view(Subclass), lambda x: x.astype(object)],
    ids=["array", "dlpack", "buffer", "masked", "subclass", "object"],
)
def test_anything_that_is_an_array(wrap):
    x = over_channels_last(counted((2, 3, 4, 5)))
    y = wrap(x)
    assert lp.is_channels_last(y)
    assert lp.is_strides_like_channels_last(y)
    assert lp.memory_formats(y) == {lp.channels_last}
    assert type(lp.storage_order(y)) is np.ndarray
    np.testing.assert_array_equal(lp.storage_order(y).astype("f4"), x.transpose(0, 2, 3, 1).ravel())
    assert type(lp.storage_offsets(y)) is np.ndarray
    np.testing.assert_array_equal(lp.storage_offsets(y), lp.storage_offsets(x))


def test_lists_and_scalars():
    assert lp.is_contiguous([[1, 2], [3, 4]])
    assert lp.is_channels_last([[[1], [2]]])
    assert lp.is_contiguous(5)
    assert not lp.is_channels_last(np.float32(5))
    assert lp.storage_order([[1, 2], [3, 4]]).tolist() == [1, 2, 3, 4]
    assert lp.storage_offsets(7).shape == ()


@pytest.mark.parametrize("detect", DETECTORS)
def test_what_is_no_array(detect):
    for x in (None, {1}, {}, object()):
        with pytest.raises(TypeError, match=f"got {type(x).__name__}"):
            detect(x)
    with pytest.raises(TypeError, match="memory of another device"):
        detect(ElsewhereByDLPack(np.zeros(3)))
    with pytest.raises(TypeError):
        detect()
    with pytest.raises(TypeError):
        detect(x=np.zeros(3))


@pytest.mark.parametrize("memory_format", ["channels_last", 1, None, lp.MemoryFormat])
def test_memory_format_is_a_member_of_the_enum(memory_format):
    with pytest.raises(TypeError, match=r"memory_format must be a member of layoutpack\.MemoryFormat"):
        lp.is_contiguous(np.zeros((2, 3, 4, 5)), memory_format)


def test_channels_last_strides():
    assert lp.channels_last_strides([2, 3, 4, 5]) == (60, 1, 15, 3)
    assert lp.channels_last_strides((2, 0, 4, 5)) == (0, 1, 0, 0)
    assert lp.channels_last_strides((2, 3, 0, 5)) == (0, 1, 15, 3)
    assert lp.channels_last_strides((0, 3, 4, 5)) == (60, 1, 15, 3)
    assert lp.channels_last_strides((1, 1, 1)) == (1, 1, 1)
    assert lp.channels_last_strides((2, 2**62, 2**63, 2**64)) == (2**189, 1, 2**126, 2**62)
    strides = lp.channels_last_strides(np.array([2, 3, 4], "i2"))
    assert strides == (12, 1, 3)
    assert all(type(stride) is int for stride in strides)
    for shape in ((), (3,), (3, 4), (1,) * 6):
        with pytest.raises(ValueError, match=f"needs 3, 4 or 5 axes, got {len(shape)}.*layout"):
            lp.channels_last_strides(shape)
    with pytest.raises(ValueError, match="negative size -3 of axis 1"):
        lp.channels_last_strides((2, -3, 4))
    for shape in ((2.0, 3, 4), "234", 3, None):
        with pytest.raises(TypeError):
            lp.channels_last_strides(shape)


def test_memory_order():
    assert memory_order(3, lp.channels_last_1d) == (0, 2, 1)
    assert memory_order(4, lp.channels_last) == memory_order(4) == (0, 2, 3, 1)
    assert memory_order(5, lp.channels_last_3d) == (0, 2, 3, 4, 1)
    assert memory_order(3, lp.channels_last, "CHW") == memory_order(3, layout="CHW") == (1, 2, 0)
    assert memory_order(4, layout="WNHC") == (1, 2, 0, 3)
    for ndim in (0, 1, 4, 9):
        assert memory_order(ndim, lp.contiguous_format) == tuple(range(ndim))
    assert memory_order(4, lp.contiguous_format, "WNHC") == (0, 1, 2, 3)
    with pytest.raises(ValueError, match="channels_last needs 4 axes, got 3"):
        memory_order(3, lp.channels_last)
    with pytest.raises(ValueError, match="channels_last_1d has 1, layout 'CHW' has 2"):
        memory_order(3, lp.channels_last_1d, "CHW")
    with pytest.raises(TypeError):
        memory_order(4, "channels_last")


# ---------------------------------------------------------------------- the enum


def test_memory_format():
    assert [m.name for m in FORMATS] == ["contiguous_format", "channels_last_1d", "channels_last", "channels_last_3d"]
    for member in FORMATS:
        assert getattr(lp, member.name) is member
        assert lp.MemoryFormat(member.name) is lp.MemoryFormat[member.name] is member
        assert repr(member) == str(member) == f"layoutpack.{member.name}"
        assert copy.copy(member) is copy.deepcopy(member) is member
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(member, protocol)) is member
    assert lp.MemoryFormat.__module__ == "layoutpack"
    assert pickle.loads(pickle.dumps(lp.MemoryFormat)) is lp.MemoryFormat


# ---------------------------------------------------------------------- storage_order and storage_offsets


@st.composite
def arrays_in_memory(draw):
    """Views of 0 to 5 axes: dense in any order of axes, flipped, and some stepped, cropped, broadcast or windowed."""
    ndim = draw(st.integers(0, 5))
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 2, 3, 4]), min_size=ndim, max_size=ndim))
    dtype = draw(st.sampled_from(["u1", ">u2", "f4", "c16", "V5", "O"]))
    count = math.prod(shape)
    if np.dtype(dtype).kind == "V":
        x = np.frombuffer(b"".join(i.to_bytes(5, "little") for i in range(count)), dtype)
    else:
        x = np.arange(count).astype(dtype)
    x = x.reshape(shape).transpose(draw(st.permutations(range(ndim))))
    for axis in draw(st.lists(st.integers(0, ndim - 1), max_size=3)) if ndim else ():
        change = draw(st.sampled_from(["flip", "flip", "flip", "step", "crop", "point", "repeat"]))
        before = (slice(None),) * axis
        if change == "flip":
            x = x[(*before, slice(None, None, -1))]
        elif change == "step":
            x = x[(*before, slice(None, None, 2))]
        elif change == "crop":
            x = x[(*before, slice(1, None))]
        elif change == "point":
            x = x[(*before, slice(0, 1))]
        elif x.shape[axis] == 1:
            x = np.broadcast_to(x, [2 if a == axis else n for a, n in enumerate(x.shape)])
    if x.ndim and x.shape[-1] > 2 and draw(st.sampled_from([False, False, False, True])):
        x = sliding_window_view(x, 2, axis=-1)
    return x


@given(arrays_in_memory())
def test_storage_order(x):
    before = x.copy()
    places = oracle_storage(x)
    if places is None:
        with pytest.raises(ValueError, match=r"elements (overlap|leave gaps)"):
            lp.storage_order(x)
        return
    y = lp.storage_order(x)
    assert (y.shape, y.dtype, type(y)) == ((x.size,), x.dtype, np.ndarray)
    assert y.tolist() == [x[index].item() if x.dtype != object else x[index] for index in places]
    assert y.flags.writeable
    assert not np.shares_memory(x, y)
    assert (x == before).all()


@given(arrays_in_memory())
def test_storage_offsets(x):
    offsets = byte_offsets(x.shape, x.strides)
    lowest = min(offsets, default=0)
    in_bytes = lp.storage_offsets(x, unit="bytes")
    assert (in_bytes.shape, in_bytes.dtype) == (x.shape, np.int64)
    assert in_bytes.ravel().tolist() == [offset - lowest for offset in offsets]
    in_elements = lp.storage_offsets(x)
    assert (in_elements.shape, in_elements.dtype) == (x.shape, np.int64)
    np.testing.assert_array_equal(in_elements * x.itemsize, in_bytes)


def test_storage_faults_are_named():
    x = np.zeros((2, 3, 4), "f4")
    with pytest.raises(ValueError, match=r"leave gaps: axis 1 has a stride of 16 bytes.* 12"):
        lp.storage_order(x[:, :, :3])
    with pytest.raises(ValueError, match=r"overlap: axis 0 has a stride of 0 bytes.* 4"):
        lp.storage_order(np.broadcast_to(np.float32(1), (3,)))
    with pytest.raises(ValueError, match="overlap"):
        lp.storage_order(sliding_window_view(np.zeros(9), 3))
    assert lp.storage_order(np.array([[1]])[:, ::-1]).tolist() == [1]
    assert lp.storage_order(strided((1, 1), (2**63 - 1, -(2**63)))).shape == (1,)


def test_storage_offsets_of_a_packed_record():
    x = np.zeros((2, 4, 5, 3), [("p", "u1"), ("v", "f4")])["v"].transpose(0, 3, 1, 2)
    with pytest.raises(ValueError, match=r"axis 1, 5 bytes, is not a multiple of the item size 4.*'bytes'"):
        lp.storage_offsets(x[:, :, :1])
    assert lp.storage_offsets(x, unit="bytes")[1, 2, 3, 4] == 300 + 10 + 225 + 60
    assert lp.storage_offsets(x[:1, :1, :1, :1]).tolist() == [[[[0]]]]  # strides of size-1 axes need not divide
    with pytest.raises(ValueError, match="unit must be 'elements' or 'bytes', got 'bits'"):
        lp.storage_offsets(x, unit="bits")


def test_storage_offsets_beyond_64_bits():
    assert lp.storage_offsets(strided((2,), (-(2**62),)), unit="bytes").tolist() == [2**62, 0]
    assert lp.storage_offsets(strided((3,), (2**62,))).tolist() == [0, 2**60, 2**61]
    for x in (strided((3,), (2**62,)), strided((2,), (-(2**63),)), strided((2, 2), (2**62, 2**62))):
        with pytest.raises(OverflowError, match="64 bits"):
            lp.storage_offsets(x, unit="bytes")


# ---------------------------------------------------------------------- conversion

DTYPES = ["?", "u1", "f2", "f4", ">f4", "f8", "c16", "M8[s]", "S3", "V5", [("a", "u1"), ("b", "f8")], "U4"]
SHAPES = [
    (2, 3, 7),
    (2, 3, 5, 7),
    (2, 3, 4, 5, 6),
    (1, 3, 5, 7),
    (4, 1, 5, 6),
    (5, 17, 1, 1),
    (1, 1, 1),
    (2, 33, 5, 9),
]


def check_converted(y, x, memory_format, layout=None):
    """Same logical array, dense in the format, with canonical strides."""
    assert_same(y, x)
    assert type(y) is np.ndarray
    assert lp.is_contiguous(y, memory_format, layout=layout)
    if not x.size:
        return
    if memory_format is lp.contiguous_format:
        assert y.strides == canonical_strides(x.shape, x.itemsize)
    else:
        assert y.strides == tuple(s * x.itemsize for s in lp.channels_last_strides(x.shape, layout=layout))


def check_copied(y, x, memory_format, layout=None):
    check_converted(y, x, memory_format, layout)
    assert not np.shares_memory(x, y)
    assert y.flags.writeable
    assert y.ctypes.data % 64 == 0


def views(x):
    """The same values over every kind of memory, each with the frame of canary bytes that it lies in."""
    ndim = x.ndim
    channels_last = [0, *range(2, ndim), 1]
    flips = [axis % 2 == 1 for axis in range(ndim)]
    yield "row-major", Frame.of(x)
    yield "channels-last", Frame.of(x, order=channels_last)
    yield "reversed", Frame.of(x, order=range(ndim)[::-1])
    yield "flipped", Frame.of(x, flips=[True] * ndim)
    yield "flipped channels-last", Frame.of(x, order=channels_last, flips=flips)
    yield "cropped", Frame.of(x, gaps=[3 * x.itemsize] * ndim)
    yield "cropped channels-last", Frame.of(x, order=channels_last, gaps=[2 * x.itemsize] * ndim)
    yield "unaligned", Frame.of(x, shift=1)
    yield "odd strides", Frame.of(x, gaps=[1, 3] + [1] * (ndim - 2), flips=flips[::-1], shift=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_conversion_of_every_kind_of_view(shape, dtype):
    x = filled(shape, dtype)
    for memory_format, convert in (
        (BY_RANK[len(shape)], lp.to_channels_last),
        (lp.contiguous_format, lp.to_contiguous),
    ):
        for kind, frame in views(x):
            view = frame.array
            view.flags.writeable = False
            before = frame.buffer.copy()
            y = convert(view)
            check_converted(y, x, memory_format)
            assert np.shares_memory(view, y) is lp.is_contiguous(view, memory_format), kind
            check_copied(convert(view, copy=True), x, memory_format)
            for threads in (1, 2):
                assert_same(convert(view, threads=threads), x)
            assert_same(lp.to_memory_format(view, memory_format), x)
            assert lp.to_memory_format(view, memory_format).strides == y.strides
            np.testing.assert_array_equal(frame.buffer, before)


@pytest.mark.parametrize("convert", [lp.to_channels_last, lp.to_contiguous])
def test_conversion_of_broadcast_and_windows(convert):
    memory_format = lp.channels_last if convert is lp.to_channels_last else lp.contiguous_format
    base = counted((1, 3, 1, 5))
    for x in (
        np.broadcast_to(base, (2, 3, 4, 5)),
        np.broadcast_to(counted((2, 1, 4, 5)), (2, 3, 4, 5)),
        np.broadcast_to(np.float32(1), (3, 3, 2, 2)),
        sliding_window_view(counted((2, 3, 9)), 4, axis=-1),
        sliding_window_view(counted((4, 9)), (2, 3))[::-1],
    ):
        check_copied(convert(x), np.ascontiguousarray(x), memory_format)
        with pytest.raises(ValueError, match="copy"):
            convert(x, copy=False)


def test_size_one_axes_give_views_with_clean_strides():
    image = counted((5, 6, 3)).transpose(2, 0, 1)
    for x in (
        image[None],
        np.expand_dims(image, 0),
        image[None][::-1],
        numbered((4, 1, 5, 6), (30, 30, 6, 1)),
        numbered((4, 1, 5, 6), (30, 999, 6, 1)),
        numbered((5, 17, 1, 1), (17, 1, 1, 1)),
        numbered((5, 17, 1, 1), (17, 1, 10**9, 0)),
    ):
        y = lp.to_channels_last(x, copy=False)
        check_converted(y, np.ascontiguousarray(x), lp.channels_last)
        assert np.shares_memory(x, y)
        assert lp.is_strides_like_channels_last(y)
    z = lp.to_contiguous(np.zeros((1, 10, 20))[::-1], copy=False)
    assert z.strides == (1600, 160, 8)


def test_copy():
    x = over_channels_last(counted((2, 3, 4, 5)))
    same = lp.to_channels_last(x)
    assert np.shares_memory(x, same)
    same[0, 0, 0, 0] = -1
    assert x[0, 0, 0, 0] == -1  # a view writes through
    x.flags.writeable = False
    assert not lp.to_channels_last(x).flags.writeable
    check_copied(lp.to_channels_last(x, copy=True), np.ascontiguousarray(x), lp.channels_last)
    with pytest.raises(ValueError, match="copy"):
        lp.to_contiguous(x, copy=False)
    with pytest.raises(ValueError, match="copy"):
        lp.to_channels_last(np.ascontiguousarray(x), copy=False)
    with pytest.raises(ValueError, match="copy"):
        lp.to_memory_format(x, lp.contiguous_format, copy=False)
    with pytest.raises(TypeError, match="copy"):
        lp.to_channels_last(x, np.empty_like(x), copy=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
def test_out(shape, memory_format):
    memory_format = BY_RANK[len(shape)] if memory_format == "channels_last" else lp.contiguous_format
    x = filled(shape, "f4")
    order = memory_order(len(shape), memory_format)
    for kind, source in views(x):
        for shift in (0, 1):
            target = Frame(shape, "f4", order=order, shift=shift)
            assert lp.to_memory_format(source.array, memory_format, target.array) is target.array, kind
            assert_same(target.array, x)
            assert target.intact(), kind
            assert source.intact(), kind
    target = Frame(shape, "f4", order=order)
    convert = lp.to_contiguous if memory_format is lp.contiguous_format else lp.to_channels_last
    assert convert(x, out=(target.array,)) is target.array
    assert_same(target.array, x)


def test_out_that_is_refused():
    x = counted((2, 3, 4, 5))
    for out in (
        np.zeros((2, 3, 4, 5), "f4"),
        np.zeros((2, 4, 5, 4), "f4").transpose(0, 3, 1, 2)[:, :3],
        np.zeros((2, 4, 5, 3), "f4").transpose(0, 3, 1, 2)[:, ::-1],
        np.zeros((2, 4, 5, 3), "f4"),
        np.zeros((1, 4, 5, 3), "f4").transpose(0, 3, 1, 2),
        np.broadcast_to(np.zeros((1, 4, 5, 3), "f4"), (2, 4, 5, 3)).transpose(0, 3, 1, 2),
    ):
        with pytest.raises(ValueError, match="out"):
            lp.to_channels_last(x, out)
        assert not out.any()
    frozen = over_channels_last(np.zeros((2, 3, 4, 5), "f4"))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lp.to_channels_last(x, frozen)
    with pytest.raises(TypeError, match="out"):
        lp.to_channels_last(x, [0])
    assert not frozen.any()


def test_out_with_odd_strides_on_size_one_axes():
    image = counted((3, 4, 5))
    out = np.zeros((4, 5, 3), "f4").transpose(2, 0, 1)[None][::-1]
    assert lp.to_channels_last(image[None], out) is out
    assert_same(out, image[None])


def test_out_over_the_input():
    memory = counted((2 * 3 * 4 * 4,))
    channels_last = memory.reshape(2, 4, 4, 3).transpose(0, 3, 1, 2)
    for make in (
        lambda: memory.reshape(2, 3, 4, 4),
        lambda: channels_last[:, :, ::-1],
        lambda: channels_last.transpose(0, 1, 3, 2),
        lambda: channels_last,
    ):
        memory[:] = np.arange(memory.size)
        x = make()
        expected = x.copy()
        assert lp.to_channels_last(x, channels_last) is channels_last
        np.testing.assert_array_equal(channels_last, expected)


def test_conversion_with_layout():
    image = counted((3, 4, 5))
    y = lp.to_channels_last(image, layout="CHW")
    check_copied(y, image, lp.channels_last, "CHW")
    assert y.strides == (4, 60, 12)
    check_converted(lp.to_channels_last(y, layout="CHW", copy=False), image, lp.channels_last, "CHW")
    check_copied(lp.to_memory_format(image, lp.channels_last, layout="CHW"), image, lp.channels_last, "CHW")
    check_copied(lp.to_channels_last(image), image, lp.channels_last_1d)
    nhwc = counted((2, 4, 5, 3))
    assert np.shares_memory(nhwc, lp.to_channels_last(nhwc, layout="NHWC", copy=False))
    check_copied(lp.to_contiguous(y), image, lp.contiguous_format)
    out = np.zeros((4, 5, 3), "f4").transpose(2, 0, 1)
    assert lp.to_channels_last(image, out, layout="CHW") is out
    np.testing.assert_array_equal(out, image)


def test_conversion_that_cannot_be():
    for shape in ((), (3,), (3, 4), (1,) * 6):
        with pytest.raises(ValueError, match=f"axes, got {len(shape)}"):
            lp.to_channels_last(np.zeros(shape))
    with pytest.raises(ValueError, match="channels_last_1d needs 3 axes, got 4"):
        lp.to_memory_format(np.zeros((2, 3, 4, 5)), lp.channels_last_1d)
    with pytest.raises(TypeError, match="memory_format must be a member"):
        lp.to_memory_format(np.zeros((2, 3, 4, 5)), "channels_last")
    with pytest.raises(TypeError):
        lp.to_channels_last(np.zeros((2, 3, 4, 5), object))
    with pytest.raises(TypeError):
        lp.to_channels_last(np.ma.zeros((2, 3, 4, 5)))


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (3, 0), (2, 2, 2, 2, 2, 2, 3)])
def test_row_major_of_any_rank(shape):
    x = np.asfortranarray(counted(shape)).reshape(shape)
    check_converted(lp.to_contiguous(x.T), np.ascontiguousarray(x.T).reshape(shape[::-1]), lp.contiguous_format)
    check_copied(lp.to_contiguous(x, copy=True), x, lp.contiguous_format)


@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (0, 0, 0), (1, 2, 3, 0, 4)])
def test_conversion_of_nothing(shape):
    x = np.zeros(shape, "f8")
    for y in (lp.to_channels_last(x), lp.to_contiguous(x), lp.to_channels_last(x, copy=True)):
        assert (y.shape, y.dtype) == (shape, x.dtype)
        assert lp.memory_formats(y) == {lp.contiguous_format, BY_RANK[len(shape)]}


# ---------------------------------------------------------------------- documentation

DOCUMENTED = [*DETECTORS, lp.channels_last_strides, memory_order, lp.MemoryFormat]


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda f: f.__name__)
def test_examples_run(documented):
    tests = doctest.DocTestFinder(recurse=False).find(documented, documented.__name__, module=_strides, globs={})
    assert [bool(test.examples) for test in tests] == [True]
    results = doctest.DocTestRunner().run(tests[0])
    assert results.failed == 0


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (lp.is_contiguous, "(x, /, memory_format=layoutpack.contiguous_format, *, layout=None)"),
        (lp.is_channels_last, "(x, /, *, layout=None)"),
        (lp.is_strides_like_channels_last, "(x, /, *, layout=None)"),
        (lp.memory_formats, "(x, /, *, layout=None)"),
        (lp.suggest_memory_format, "(x, /, *, layout=None)"),
        (lp.channels_last_strides, "(shape, /, *, layout=None)"),
        (lp.storage_order, "(x, /, *, layout=None)"),
        (lp.storage_offsets, "(x, /, *, unit='elements', layout=None)"),
    ],
)
def test_signatures(function, signature):
    assert str(inspect.signature(function)) == signature
    assert pickle.loads(pickle.dumps(function)) is function
