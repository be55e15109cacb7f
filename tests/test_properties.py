"""Properties of every conversion, over drawn formats, sizes, dtypes, memory and settings.

The oracle is reference.py. Run `pytest tests/test_properties.py --hypothesis-profile=long` for a long search.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutpack as lp
import reference
from guard import Frame, assert_fresh, assert_same, filled
from layoutpack.formats import as_format
from test_repack import FAMILIES, is_plain, transposed

SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33)
MAX_ELEMENTS = 20_000  # of one tensor: several chunks of the larger dtypes, milliseconds of the oracle

DTYPES = [
    *("?", "u1", "f2", "f4", "f8", "c16", ">f4", ">i2", "M8[s]", "m8[ns]", "S3", "V5", "V32", "u1,>f8"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4),
]
LETTERS = "ABDEFG"  # axes without a meaning: C, I, N and O have one

each_family = pytest.mark.parametrize("family", [*FAMILIES, "any rank"])

# ---------------------------------------------------------------------- formats


class Side(NamedTuple):
    """A format, its index map for the oracle, and its block sizes as keywords."""

    format: str | lp.Format
    where: str | reference.IndexMap
    blocks: dict[str, int]

    @property
    def is_plain(self):
        return isinstance(self.format, str) and is_plain(self.format)


@st.composite
def own_formats(draw, order):
    """A format of any blocks, any order of the indices and any fusing of neighbours."""
    cut = draw(st.sets(st.sampled_from(order), max_size=2))
    edges = st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=2)
    blocks = {axis: tuple(draw(edges)) for axis in sorted(cut)}
    factors = [(axis, level) for axis in order for level in reversed(range(len(blocks.get(axis, ())) + 1))]
    factors = draw(st.permutations(factors))
    borders = draw(st.lists(st.booleans(), min_size=len(factors) - 1, max_size=len(factors) - 1))
    stored = [[factors[0]]]
    for factor, border in zip(factors[1:], borders, strict=True):
        if border or draw(st.booleans()):
            stored.append([factor])
        else:
            stored[-1].append(factor)

    def spell(fused):
        names = " ".join(f"{axis}{level}" if axis in blocks else axis for axis, level in fused)
        return f"({names})" if len(fused) > 1 else names

    def digit(axis, level, i, z):
        index, extent = getattr(i, axis.lower()), getattr(z, axis.lower())
        for block in blocks.get(axis, ())[::-1][:level]:
            index, extent = index // block, reference.up(extent, block)
        inner = level < len(blocks.get(axis, ()))
        return (index % blocks[axis][-1 - level], blocks[axis][-1 - level]) if inner else (index, extent)

    def where(i, z, b):
        pairs = []
        for fused in stored:
            index, extent = 0, 1
            for axis, level in fused:
                at, n = digit(axis, level, i, z)
                index, extent = index * n + at, extent * n
            pairs.append((index, extent))
        return pairs

    physical = " ".join(map(spell, stored))
    return Side(lp.Format("OWN", logical=" ".join(order), physical=physical, blocks=blocks), where, {})


@st.composite
def sides(draw, order):
    """A format of the family of `order`: a row of the table, a plain order, a blocked tag or one of our own."""
    if order != "ND" and draw(st.sampled_from([False, False, True])):
        return draw(own_formats(order))
    if order in FAMILIES:
        name = draw(st.sampled_from(FAMILIES[order]))
    else:
        name = "".join(draw(st.permutations(order)))
        name += draw(st.sampled_from(["", f"16{order[0]}", f"3{order[-1]}", f"4{order[0]}8{order[-1]}"])).lower()
    keywords = reference.BLOCKS.get(name, ())
    return Side(name, name, {keyword: draw(st.sampled_from([1, 4, 5, 7, 8, 16, 32])) for keyword in keywords})


def test_every_format_is_drawn():
    drawn = {name for family in FAMILIES.values() for name in family}
    assert reference.FORMATS.keys() <= drawn


# ---------------------------------------------------------------------- arrays


@st.composite
def shapes(draw, rank):
    sizes = [1] * rank
    elements = 1
    for axis in draw(st.permutations(range(rank))):
        sizes[axis] = draw(st.sampled_from([n for n in SIZES if n * elements <= MAX_ELEMENTS]))
        elements *= max(sizes[axis], 1)
    return tuple(sizes)


@st.composite
def frames(draw, ndim):
    """How a Frame lies in memory: transposed, stepped, flipped, off every border, like a field of a record."""
    return {
        "order": draw(st.permutations(range(ndim))),
        "gaps": draw(st.lists(st.sampled_from([0, 0, 1, 3, 8, 64]), min_size=ndim, max_size=ndim)),
        "flips": draw(st.lists(st.booleans(), min_size=ndim, max_size=ndim)),
        "shift": draw(st.integers(0, 63)),
    }


class Case(NamedTuple):
    """A conversion, an input and what is due."""

    order: str
    src: Side
    dst: Side
    values: np.ndarray  # the tensor, whose axes `order` names
    source: np.ndarray  # its storage, with junk for padding
    frame: Frame  # the memory that `source` is a view of
    fill: np.ndarray | None

    def arranged(self, side):
        """The tensor with its axes as the format counts them."""
        if self.order == "ND":
            return self.values
        return transposed(self.values, self.order, as_format(side.format).logical.replace(" ", ""))

    def stored(self, side, fill=None):
        return reference.pack(self.values, side.where, self.order, fill=fill, **side.blocks)

    @property
    def expected(self):
        return self.stored(self.dst, self.fill)

    @property
    def keywords(self):
        """What repack has to be told; a plain source shows its shape."""
        shape = {} if self.src.is_plain else {"shape": self.arranged(self.dst).shape}
        return self.dst.blocks | shape | {"fill": self.fill}


@st.composite
def cases(draw, family):
    order = family if family in FAMILIES else LETTERS[: draw(st.integers(1, len(LETTERS)))]
    src, dst = draw(sides(order)), draw(sides(order))
    shape = draw(shapes(draw(st.integers(2, 4)) if order == "ND" else len(order)))
    storage = filled(reference.packed_shape(src.where, order, shape, **src.blocks), draw(st.sampled_from(DTYPES)))
    repeated = draw(st.none() | st.integers(0, storage.ndim - 1))  # an axis with a stride of zero
    part = storage if repeated is None else storage.take(range(min(storage.shape[repeated], 1)), repeated)
    frame = Frame.of(part, **draw(frames(part.ndim)))
    source = np.broadcast_to(frame.array, storage.shape) if repeated is not None else frame.array
    values = reference.unpack(source, src.where, order, shape, **src.blocks)
    return Case(order, src, dst, values, source, frame, draw(st.sampled_from([None, filled((), storage.dtype)])))


# ---------------------------------------------------------------------- properties


@each_family
@given(data=st.data())
def test_any_conversion(family, data):
    """Equals the oracle in every byte; nothing but out is written, and of out all its elements and no gap."""
    case = data.draw(cases(family))
    src, dst, keywords, expected = case.src.format, case.dst.format, case.keywords, case.expected
    before = case.frame.buffer.copy()
    target = Frame(expected.shape, expected.dtype, **data.draw(frames(expected.ndim)))
    dense = Frame(expected.shape, expected.dtype, shift=data.draw(st.integers(0, 63)))

    def check(call, *arguments, **keywords):
        for frame in (target, dense):
            frame.bytes[...] = 0xFF
            assert call(*arguments, out=frame.array, **keywords) is frame.array
            assert_same(frame.array, expected)
            assert frame.intact()
        fresh = call(*arguments, **keywords)
        assert_same(fresh, expected)
        assert_fresh(fresh, case.source)

    for threads in (1, 1, data.draw(st.integers(2, 4))):  # the second comes again, and is not checked again
        check(lp.repack, case.source, src, dst, threads=threads, **keywords)

    keywords["logical_shape"] = keywords.pop("shape", None)
    for streaming in (True, False):  # which repack decides by size
        plan = lp.plan(src, dst, case.source.shape, case.source.dtype, streaming=streaming, **keywords)
        assert (plan.shape, plan.nbytes) == (expected.shape, expected.nbytes)
        check(plan, case.source, threads=data.draw(st.integers(1, 3)))
    assert (case.frame.buffer == before).all()


@each_family
@given(data=st.data())
def test_any_way_round(family, data):
    """The way back restores the tensor, and the way over a third format ends where the direct one does."""
    case = data.draw(cases(family))
    src, dst, over = case.src, case.dst, data.draw(sides(case.order))
    direct = lp.repack(case.source, src.format, dst.format, **case.keywords)
    back = lp.repack(direct, dst.format, src.format, shape=case.arranged(src).shape, **src.blocks)
    assert_same(back, case.stored(src))

    junk = filled((), case.source.dtype)  # for padding, which is not to be taken along
    between = lp.repack(back, src.format, over.format, shape=case.arranged(over).shape, fill=junk, **over.blocks)
    keywords = case.keywords | {"shape": case.arranged(dst).shape}
    assert_same(lp.repack(between, over.format, dst.format, **keywords), direct)

    fmt, logical = as_format(dst.format), case.arranged(dst)
    if direct.size and logical.size and not fmt.is_plain:  # where an element goes can be asked without converting
        at = tuple(data.draw(st.integers(0, n - 1)) for n in logical.shape)
        assert fmt.packed_shape(logical.shape, **dst.blocks) == direct.shape
        assert direct[fmt.index(at, logical.shape, **dst.blocks)].tobytes() == logical[at].tobytes()


@each_family
@given(data=st.data())
def test_any_overlap(family, data):
    """The result is as if the input had been copied first, and nothing but out changes."""
    case = data.draw(cases(family))
    expected = case.expected
    memory = np.concatenate([case.frame.buffer, np.zeros(expected.nbytes, np.uint8)])
    start = case.source.ctypes.data - case.frame.buffer.ctypes.data
    source = np.ndarray(case.source.shape, case.source.dtype, memory, start, case.source.strides)
    order = data.draw(st.permutations(range(expected.ndim)))
    place = data.draw(st.integers(0, case.frame.buffer.size))

    def out(memory):
        dense = np.ndarray([expected.shape[axis] for axis in order], expected.dtype, memory, place)
        return dense.transpose(np.argsort(order))

    before, wanted = memory.copy(), memory.copy()
    out(wanted)[...] = expected
    for _ in range(2):
        memory[:] = before
        target = out(memory)
        assert lp.repack(source, case.src.format, case.dst.format, target, **case.keywords) is target
        assert memory.tobytes() == wanted.tobytes()


@given(data=st.data())
def test_any_memory_format(data):
    """A format is reported exactly where the conversion to it needs no copy, and the conversion keeps every element."""
    rank = data.draw(st.integers(3, 5))
    x = filled(data.draw(shapes(rank)), data.draw(st.sampled_from(DTYPES)))
    frame = Frame.of(x, **data.draw(frames(rank) | st.just({"order": [0, *range(2, rank), 1]}) | st.just({})))
    before = frame.buffer.copy()
    channels_last = [lp.channels_last_1d, lp.channels_last, lp.channels_last_3d][rank - 3]
    assert lp.is_channels_last(frame.array) is lp.is_contiguous(frame.array, channels_last)
    for memory_format in (lp.contiguous_format, channels_last):
        if lp.is_contiguous(frame.array, memory_format):
            same = lp.to_memory_format(frame.array, memory_format, copy=False)
            assert np.shares_memory(same, frame.array) or not x.size
            assert_same(same, x)
        else:
            with pytest.raises(ValueError, match="copy"):
                lp.to_memory_format(frame.array, memory_format, copy=False)
        for copy in (None, True):
            converted = lp.to_memory_format(frame.array, memory_format, copy=copy)
            assert_same(converted, x)
            assert memory_format in lp.memory_formats(converted)
    assert (frame.buffer == before).all()
