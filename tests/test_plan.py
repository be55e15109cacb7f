"""Invariants of the planner, checked on its data: boxes, loops and chunks, without running the engine."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutpack as lp
from layoutpack import _engine, _plan
from layoutpack._conversion import Conversion
from layoutpack.formats import as_format

SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 33)
PLAIN = ("NCHW", "NHWC", "HWCN")
BLOCKED = ("NC1HWC0", "NCHW8c", "NCHW12c", "OIHW16i16o", "OIHW4i16o4i", "FRACTAL_Z", "FRACTAL_NZ")
C04 = lp.Format("C04", "N C H W", "(H W C0)1 N1 N0 (H W C0)0", {"C": 4, "N": 16, "(H W C0)": "c0"})


def conversion(src, dst, shape, itemsize=2, c0=16):
    """The conversion of a tensor of logical `shape` (N, C, H, W)."""
    src, dst = as_format(src), as_format(dst)
    sizes = dict(zip("NCHW", shape, strict=True)) | {"O": shape[0], "I": shape[1]}

    def logical(f, other):
        order = next((g.named_axes for g in (f, other) if not g.is_positional), "NCHW")
        return tuple(sizes[axis] for axis in order)  # a matrix format takes the axes as the other side has them

    packed = src.packed_shape(logical(src, dst), c0=c0 if src.uses("c0") else None)
    keywords = (tuple(c0 if f.uses("c0") else None for f in (src, dst)), None, None)
    return Conversion(src, dst, packed, np.dtype(f"V{itemsize}"), logical(dst, src), None, keywords)


def row_major(shape, itemsize):
    return tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))


def groups_of(c, chunk_bytes=1 << 30, dst_strides=None):
    strides = row_major(c.src_shape, c.itemsize)
    return _plan.plan_groups(c._axes, strides, dst_strides or c.strides, c.itemsize, chunk_bytes)


def moves(group, ranges=None):
    """Every (destination, source or None, bytes) of a group; `ranges` restricts its shared loops."""
    ranges = ranges or [range(loop.extent) for loop in group.loops]
    for box in group.boxes:
        indices = itertools.product(*ranges, *(range(loop.extent) for loop in box.loops))
        loops = (*group.loops, *box.loops)
        for index in indices:
            dst = group.dst_offset + box.dst_offset + sum(i * loop.dst for i, loop in zip(index, loops, strict=True))
            src = group.src_offset + box.src_offset + sum(i * loop.src for i, loop in zip(index, loops, strict=True))
            live = all(i < loop.valid for i, loop in zip(index, loops, strict=True))
            yield dst, src if live else None, box.width


pairs = st.sampled_from([(s, d) for s in (*PLAIN, *BLOCKED) for d in (*PLAIN, *BLOCKED)])
small_shapes = st.tuples(*[st.sampled_from(SIZES)] * 4).filter(lambda s: math.prod(s) <= 2500)


@given(pairs, small_shapes, st.sampled_from((1, 2, 3, 16)))
def test_boxes_tile_the_output_and_stay_inside_the_input(pair, shape, itemsize):
    c = conversion(*pair, shape, itemsize)
    written = Counter()
    inside = math.prod(c.src_shape) * itemsize
    for group in groups_of(c):
        for dst, src, width in moves(group):
            written.update(range(dst, dst + width, itemsize))
            assert src is None or 0 <= src <= inside - width
    assert written == Counter(range(0, c.nbytes, itemsize))


@given(pairs, small_shapes, st.sampled_from((64, 200, 4096)))
def test_no_two_chunks_write_the_same_byte(pair, shape, chunk_bytes):
    c = conversion(*pair, shape)
    written = Counter()
    for group in groups_of(c, chunk_bytes):
        spans = [
            [range(at, min(at + step, loop.extent)) for at in range(0, loop.extent, step)]
            for loop, step in zip(group.loops, group.steps, strict=True)
        ]
        chunks = list(itertools.product(*spans))
        assert len(chunks) == group.chunks
        for ranges in chunks:
            written.update({at for dst, _, width in moves(group, ranges) for at in range(dst, dst + width)})
    assert written == Counter(range(c.nbytes))


@given(pairs, small_shapes, st.sampled_from((64, 300)), st.integers(1, 3))
def test_chunks_and_threads_do_not_change_the_bytes(pair, shape, chunk_bytes, threads):
    c = conversion(*pair, shape, itemsize=2)
    x = np.random.default_rng(0).integers(0, 1 << 16, c.src_shape, np.uint16)
    whole, split = np.zeros(c.shape, np.uint16), np.zeros(c.shape, np.uint16)
    _engine.Program(groups_of(c), b"\0\0").run(whole, x, 1)
    _engine.Program(groups_of(c, chunk_bytes), b"\0\0").run(split, x, threads)
    np.testing.assert_array_equal(split, whole)


@pytest.mark.parametrize(("b1", "b2"), [(8, 16), (16, 8), (16, 12), (12, 16), (7, 5), (16, 16), (3, 32), (1, 4)])
@pytest.mark.parametrize("channels", [1, 5, 47, 48, 97, 2 * 3 * 5 * 7 * 16])
def test_number_of_boxes_of_a_reblocking(b1, b2, channels):
    c = conversion(f"NCHW{b1}c", f"NCHW{b2}c", (2, channels, 2, 2))
    g = math.gcd(b1, b2)
    for group in groups_of(c):
        assert len(group.boxes) <= b1 // g + b2 // g - 1
    period = math.lcm(b1, b2)
    whole = [group for group in groups_of(c) if all(loop.valid == loop.extent for b in group.boxes for loop in b.loops)]
    if channels >= period and channels % period == 0:
        assert [len(group.boxes) for group in whole] == [b1 // g + b2 // g - 1 if b1 != b2 else 1]


@pytest.mark.parametrize(
    ("src", "dst", "shape"),
    [
        ("NHWC", "NHWC", (2, 5, 7, 3)),
        ("NC1HWC0", "NC1HWC0", (2, 32, 3, 5)),
        ("HWC", "HWC", (4, 5, 3)),
        ("ND", "ND", (3, 1, 4)),
    ],
)
def test_same_bytes_become_one_copy(src, dst, shape):
    src, dst = as_format(src), as_format(dst)
    packed = src.packed_shape(shape, c0=16) if src.uses("c0") else shape
    c = Conversion(src, dst, packed, np.dtype("f4"), shape, None, ((16, 16) if src.uses("c0") else None, None, None))
    (group,) = groups_of(c)
    (box,) = group.boxes
    assert box.panel == ((), -1, -1, box.panel.col, "copy")
    assert _plan.is_identity([group])
    assert sum(loop.extent for loop in (*group.loops, *box.loops)) * box.width == c.nbytes


def test_a_run_of_words_becomes_one_word():
    c = Conversion(as_format("HWC"), as_format("WHC"), (30, 40, 4), np.dtype("u1"))
    (group,) = groups_of(c)
    assert [b.width for b in group.boxes] == [4]
    assert group.boxes[0].panel.kernel == "transpose"


@pytest.mark.parametrize("dst", ["NC1HWC0", "FRACTAL_Z", "NHWC", "FRACTAL_NZ"])
def test_a_batch_of_one_is_split(dst):
    c = conversion("NCHW", dst, (1, 64, 64, 64))
    assert sum(group.chunks for group in groups_of(c, chunk_bytes=1 << 16)) >= 4


@pytest.mark.parametrize(
    ("src", "dst", "shape", "src_c0", "c0"),
    [
        ("NCHW", "NC1HWC0", (1, 9000, 2, 3), None, 9001),  # one block, a little padding
        ("NCHW", "NC1HWC0", (2, 3, 2, 1), None, 20000),  # hardly anything but padding
        ("NC1HWC0", "NC1HWC0", (1, 20000, 2, 1), 15000, 10000),  # several boxes a group
        ("ND", "FRACTAL_NZ", (200, 300), None, 310),
    ],
)
def test_blocks_larger_than_a_chunk_are_cut(src, dst, shape, src_c0, c0):
    x = np.arange(1, math.prod(shape) + 1, dtype=np.uint16).reshape(shape)
    if src_c0:
        x = lp.repack(x, "NCHW", src, c0=src_c0)
    c = Conversion(as_format(src), as_format(dst), x.shape, x.dtype, shape, None, ((src_c0, c0), None, None))
    whole, cut = np.zeros(c.shape, np.uint16), np.zeros(c.shape, np.uint16)
    chunk_bytes = 64 * 64 * 2  # a tile
    groups = groups_of(c, chunk_bytes)
    for group in groups:
        boxes = sum(math.prod(loop.extent for loop in box.loops) * box.width for box in group.boxes)
        assert math.prod(group.steps) * boxes <= 2 * chunk_bytes
    _engine.Program(groups_of(c), b"\0\0").run(whole, x, 1)
    _engine.Program(groups, b"\0\0").run(cut, x, 2)
    np.testing.assert_array_equal(cut, whole)


def test_a_chunk_of_gigabytes_touches_a_part_of_them():
    c = Conversion(as_format("ND"), as_format("ND"), (1 << 16, 3 << 15), np.dtype("u1"))
    for strides in ((1, 0), (1, 1 << 16)):  # the same element all along a row; a transposed copy
        for group in _plan.plan_groups(c._axes, strides, c.strides, 1, chunk_bytes=1 << 25, streams=True):
            reach = sum(step * loop.dst for step, loop in zip(group.steps, group.loops, strict=True))
            assert reach < c.nbytes / 10


@pytest.mark.parametrize("c0", [4, 8, 16, 32])
@pytest.mark.parametrize("shape", [(5, 3, 7, 7), (16, 4, 3, 3), (17, 1, 1, 1), (3, 2, 2, 5)])
def test_a_blocked_group_follows_its_index_map(shape, c0):
    x = np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)
    want = np.zeros(C04.packed_shape(shape, c0=c0), np.int32)
    for index in np.ndindex(shape):
        want[C04.index(index, shape, c0=c0)] = x[index]
    packed = lp.repack(x, "NCHW", C04, c0=c0)
    np.testing.assert_array_equal(packed, want)
    np.testing.assert_array_equal(lp.repack(packed, C04, "NCHW", shape=shape), x)


def test_a_group_that_padding_would_tear_apart_is_refused():
    torn = lp.Format("TORN", "N C H W", "(H W C0)1 N (H W C0)0", {"C": 3, "(H W C0)": 16})
    with pytest.raises(ValueError, match=r"TORN.*multiple of the extent of C0, 3"):
        lp.repack(np.zeros((1, 2, 4, 4)), "NCHW", torn)
