"""From two formats, a shape and strides to a plan: groups of boxes of loops.

Five steps, each a function or two:

1. `pair_axes` gives the axes of both formats common names.
2. `solve_extents` finds the logical extents from the input's shape and what the caller states.
3. `linear_axes` describes each axis as two chains of digits: how its index splits into storage indices on either side.
4. `pieces` cuts an axis where either chain breaks, into loops with constant strides.
5. `plan_groups` multiplies the pieces of all axes into groups of boxes, merges loops, and chooses the panel, the
   kernel and the chunks.

Offsets and strides are signed bytes; an extent counts iterations.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from layoutpack._tiles import (
    Cast,
    Loop,
    Offsets,
    Panel,
    Tiling,
    choose_cast,
    choose_panel,
    choose_tiling,
    chunk_steps,
    cut_loops,
)
from layoutpack.formats import Factor, Format, Storage

# ---- 1. names -----------------------------------------------------------------------------------------------------

_SYNONYMS = {"O": "N", "I": "C"}  # weights: O is N and I is C where the other format says N, C
CHANNEL_AXES = ("C", "I")


def pair_axes(src: Format, dst: Format, src_shape: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the logical axes of both formats, batch axes first; equal names are the same axis.

    Positional formats (matrix formats, "ND") take the names of the other
    side, whatever they are: their own are the last axes.
    """
    batched = src.is_batched or (dst.is_batched and not dst.is_positional)
    batch = len(src_shape) - src.storage_rank
    if batch < 0 or (batch and not batched):
        many = "at least " if batched else ""
        raise ValueError(
            f"{src.name} -> {dst.name}: expected {many}{src.storage_rank} axes '{src.physical}' of {src.name}, "
            f"got {len(src_shape)} in the shape {src_shape}"
        )
    rank = batch + len(src.named_axes)
    if src.is_positional and dst.is_positional:
        names = tuple(f"#{i - rank}" for i in range(rank))
        for f in (src, dst):
            _check_rank(f, rank)
        return names, names
    if src.is_positional or dst.is_positional:
        named = src if dst.is_positional else dst
        lead = rank - len(named.named_axes)
        if lead < 0 or (lead and not named.is_batched):
            raise ValueError(
                f"{src.name} -> {dst.name}: {named.name} names {len(named.named_axes)} axes, the tensor has {rank}"
            )
        if dst.is_positional:
            _check_rank(dst, rank)
        names = tuple(f"#{i - rank}" for i in range(lead)) + named.named_axes
        return names, names
    lead_names = tuple(f"#{i - rank}" for i in range(batch))
    return lead_names + _rename(src, dst), lead_names + _rename(dst, src)


def _check_rank(matrix: Format, rank: int) -> None:
    needed = len(matrix.named_axes)
    if rank < needed:
        shape = "(1, n) or (n, 1)" if rank == 1 else "two axes or more"
        raise ValueError(
            f"{matrix.name}: needs at least {needed} axes '{' '.join(matrix.named_axes)}', got {rank}; "
            f"reshape the array to {shape} first"
        )


def _rename(f: Format, other: Format) -> tuple[str, ...]:
    def name(axis: str) -> str:
        twin = _SYNONYMS.get(axis, axis)
        return twin if twin in other.named_axes and axis not in other.named_axes and twin not in f.named_axes else axis

    return tuple(map(name, f.named_axes))


# ---- 2. extents ---------------------------------------------------------------------------------------------------


def solve_extents(
    src: Storage,
    dst: Storage,
    src_shape: tuple[int, ...],
    shape: Sequence[int] | None,
    channels: int | None,
) -> dict[str, int]:
    """Logical extent of every axis of either side.

    `shape` is in the order of the destination's axes. What padding or fusing hides must be stated; it is never guessed.
    """
    pair = f"{src.name} -> {dst.name}"
    stated: dict[str, int] = {}
    if shape is not None:
        if len(shape) != len(dst.axes):
            raise ValueError(f"{pair}: shape= needs {len(dst.axes)} axes '{_spell(dst.axes)}', got {tuple(shape)}")
        stated.update(zip(dst.axes, shape, strict=True))
    if channels is not None:
        axis = next((a for a in CHANNEL_AXES if a in src.axes or a in dst.axes), None)
        if axis is None:
            raise ValueError(f"{pair}: channels= is for formats with an axis C, here the axes are '{_spell(src.axes)}'")
        if stated.setdefault(axis, channels) != channels:
            raise ValueError(f"{pair}: channels={channels} and shape={tuple(shape or ())} disagree about axis {axis}")

    missing = [a for a in dst.axes if a in CHANNEL_AXES and a not in src.axes]
    if missing:
        raise ValueError(f"{pair}: {dst.name} needs axis {missing[0]}, the source has only '{_spell(src.axes)}'")
    extents = {a: stated.get(a, 1) for a in dst.axes if a not in src.axes}
    for axis in (a for a, n in extents.items() if n != 1):
        raise ValueError(f"{pair}: axis {axis} is absent from {src.name}, so its length is 1, not {extents[axis]}")
    for fused, n in zip(src.physical, src_shape, strict=True):
        if len(fused) == 1 and fused[0].level is None:
            axis = fused[0].axis
            extents[axis] = n
            if stated.get(axis, n) != n:
                raise ValueError(
                    f"{pair}: axis {_name(axis)} is {n} long in the input {src_shape}, {stated[axis]} was stated"
                )
    hidden = [a for a in src.axes if a not in extents]
    unknown = [a for a in hidden if a not in stated and a in dst.axes]
    if unknown:
        by_channels = ", channels=" if [a for a in CHANNEL_AXES if a in unknown] == unknown else ""
        raise TypeError(
            f"{pair}: the storage does not tell the length of axis {', '.join(map(_name, unknown))}; "
            f"give shape= (all of '{_spell(dst.axes)}'){by_channels} or, for a plain destination, out=; "
            f"plan() calls the first logical_shape="
        )
    extents.update({a: stated.get(a, 1) for a in hidden})
    for axis in src.axes:
        if axis not in dst.axes and extents[axis] != 1:
            raise ValueError(
                f"{pair}: axis {_name(axis)} is absent from {dst.name}, so its length must be 1, got {extents[axis]}"
            )
    needed = src.shape(extents)
    for i, (n, want) in enumerate(zip(src_shape, needed, strict=True)):
        if n != want:
            what = " ".join(map(str, src.physical[i]))
            raise ValueError(
                f"{pair}: storage axis {i} ({what}) of {src.name} must be {want} long for the tensor "
                f"{_sizes(src.axes, extents)}, got {n} in {src_shape}{_range(src, i, n)}"
            )
    return extents


def _range(src: Storage, i: int, n: int) -> str:
    """What the length `n` of a storage axis allows the blocked axis behind it to be."""
    if len(src.physical[i]) != 1:
        return ""
    axis, level = src.physical[i][0]
    sizes = src.blocks.get(axis, ())
    if not sizes or level != len(sizes) or axis in src.groups:
        return ""
    block = math.prod(sizes)
    return f"; {n} blocks of {block} hold {max((n - 1) * block + 1, 0)} to {n * block} of axis {_name(axis)}"


def _name(axis: str) -> str:
    return axis.lstrip("#")


def _spell(axes: Iterable[str]) -> str:
    return " ".join(map(_name, axes))


def _sizes(axes: Iterable[str], extents: Mapping[str, int]) -> str:
    return ", ".join(f"{_name(a)}={extents[a]}" for a in axes)


# ---- 3. digits ----------------------------------------------------------------------------------------------------


class Digit(NamedTuple):
    """A storage index: it counts blocks of `block` elements of an axis in steps of `times` along storage axis `at`."""

    block: int
    at: int
    times: int


class LinearAxis(NamedTuple):
    """An axis, or axes taken as one, whose index runs from 0 to `extent`, and in the output on to `padded`.

    Both chains go from the outermost digit to the innermost; each block is a multiple of the next.
    """

    names: tuple[str, ...]
    extent: int
    padded: int
    src: tuple[Digit, ...]
    dst: tuple[Digit, ...]


class AxisChain(NamedTuple):
    """The digits of an axis on one side; `room`: its fixed length there, where it has no outermost index."""

    digits: tuple[Digit, ...] = ()
    room: int | None = None

    def padded(self, extent: int) -> int:
        """Length of the axis with its padding."""
        if self.room is not None:
            return self.room
        block = self.digits[0].block if self.digits else 1
        return -(-extent // block) * block


def linear_axes(src: Storage, dst: Storage, extents: Mapping[str, int]) -> list[LinearAxis]:
    """All axes with their digits on both sides."""
    src_chains, dst_chains = _chains(src, extents), _chains(dst, extents, written=True)
    joint = sorted({key for key in (*src_chains, *dst_chains) if len(key) > 1})
    fused = [axis for key in joint for axis in key]
    if len(set(fused)) != len(fused):
        raise ValueError(f"{src.name} -> {dst.name}: fused and blocked axes overlap: {', '.join(map(str, joint))}")
    single = [(axis,) for axis in dict.fromkeys((*dst.axes, *src.axes)) if axis not in fused]
    axes = []
    for key in (*joint, *single):
        extent = math.prod(extents[axis] for axis in key)
        src_chain, dst_chain = (_join(s, c, key, extents) for s, c in ((src, src_chains), (dst, dst_chains)))
        axes.append(LinearAxis(key, extent, dst_chain.padded(extent), src_chain.digits, dst_chain.digits))
    return axes


def _chains(storage: Storage, extents: Mapping[str, int], written: bool = False) -> dict[tuple[str, ...], AxisChain]:
    """Digits of every axis; axes of a blocked group that cannot be told apart share a chain."""
    where: dict[Factor, AxisChain] = {}
    for at, fused in enumerate(storage.physical):
        times = 1
        for factor in reversed(fused):
            where[factor] = AxisChain((Digit(1, at, times),))
            times *= storage.extent(factor, extents)
    chains: dict[tuple[str, ...], AxisChain] = {}
    for group, members in storage.groups.items():
        digits, room = _levels(storage, group, where)
        chain, rest = list(digits), list(members)
        # A last member that divides the block is a digit of its own: (H W C0) in blocks of 16 with C0 = 4 is
        # (H W) in blocks of 4, and C0.
        while len(rest) > 1 and len(chain) > 1:
            inner, n = chain[-1], storage.extent(rest[-1], extents)
            if not n or chain[-2].block % (inner.block * n):
                break
            where[rest.pop()] = AxisChain((Digit(1, inner.at, inner.times),))
            chain[-1] = Digit(inner.block * n, inner.at, inner.times * n)
            room = room and room // n
            if chain[-2].block == chain[-1].block:
                del chain[-1]
        unit = chain[-1].block
        left = AxisChain(tuple(Digit(d.block // unit, d.at, d.times) for d in chain), room)
        if len(rest) == 1:
            member = rest[0]
            n = storage.extent(member, extents)
            inner_level = member.level is not None and member.level < len(storage.blocks[member.axis])
            if written and inner_level and left.padded(n) != n:
                raise ValueError(
                    f"{storage.name}: cannot be written, since the blocks of {group} end in padding that belongs to no "
                    f"axis: {left.padded(n)} places for the {n} of {member}"
                )
            where[member] = left
        else:
            for member in rest:
                if member.level is not None:
                    raise ValueError(
                        f"{storage.name}: the block of {group} must be a multiple of the extent of {member}, "
                        f"{storage.extent(member, extents)}"
                    )
            chains[tuple(m.axis for m in rest)] = left
    joint = {axis for key in chains for axis in key}
    for axis in storage.axes:
        if axis not in joint:
            chains[(axis,)] = _levels(storage, axis, where)
    return chains


def _levels(storage: Storage, axis: str, where: Mapping[Factor, AxisChain]) -> AxisChain:
    """Digits of an axis, or of a blocked group, from its levels."""
    sizes = storage.blocks.get(axis, ())
    if not sizes:
        return where[Factor(axis, None)]
    digits: list[Digit] = []
    for level in range(len(sizes), -1, -1):
        below = math.prod(sizes[len(sizes) - level :])
        chain = where.get(Factor(axis, level), AxisChain())
        digits += [Digit(d.block * below, d.at, d.times) for d in chain.digits]
    outer = where.get(Factor(axis, len(sizes)), AxisChain((), 1))
    return AxisChain(tuple(digits), None if outer.room is None else outer.room * math.prod(sizes))


def _join(
    storage: Storage, chains: Mapping[tuple[str, ...], AxisChain], key: tuple[str, ...], extents: Mapping[str, int]
) -> AxisChain:
    """The chain of several axes taken as one, the last running fastest. An axis that a side lacks has no digits."""
    if len(key) == 1 or key in chains:
        return chains.get(key, AxisChain())
    joined: list[Digit] = []
    below = 1
    for axis in reversed(key):
        chain = chains.get((axis,), AxisChain())
        if joined and chain.digits and (below % joined[0].block or chain.room is not None):
            raise ValueError(
                f"{storage.name}: axes {_spell(key)} cannot be taken as one, since padding lies between them"
            )
        joined[:0] = [Digit(d.block * below, d.at, d.times) for d in chain.digits]
        below *= max(extents[axis], 1)  # an empty axis has no digits that matter
    return AxisChain(tuple(joined))


Slice = tuple[tuple[slice, ...], tuple[slice, ...], list[LinearAxis]]


def cut_axis(
    axes: Sequence[LinearAxis], src_shape: Sequence[int], src_strides: Sequence[int], most: int, whole: str = ""
) -> list[Slice]:
    """Cut a conversion along one axis into slices of at most about `most` elements of the input.

    A slice is an index for the input, one for the output, and the axes of what they leave. The outermost axis of the
    input is cut that can be cut so fine, at borders of blocks of both sides, but for the axis `whole`. Where nothing
    can be cut there is one slice.
    """
    alone = Counter(d.at for axis in axes for d in axis.src), Counter(d.at for axis in axes for d in axis.dst)
    found = []
    for i, axis in enumerate(axes):
        if not axis.src or not axis.dst or axis.names == (whole,):
            continue
        src, dst = axis.src[0], axis.dst[0]
        unit = math.lcm(src.block, dst.block)
        if alone[0][src.at] == alone[1][dst.at] == 1 and axis.extent > unit:
            size = math.prod(src_shape) * unit // axis.extent
            rank = (0, -abs(src_strides[src.at])) if size <= most else (1, size)
            found.append((rank, i, unit * max(most // max(size, 1), 1)))
    if not found:
        return [((), (), list(axes))]
    _, at, step = min(found, key=lambda cut: cut[0])
    axis = axes[at]
    src, dst = axis.src[0], axis.dst[0]
    slices: list[Slice] = []
    for start in range(0, axis.extent, step):
        stop = start + step
        last = stop >= axis.extent
        part = axis._replace(extent=min(step, axis.extent - start), padded=axis.padded - start if last else step)
        index = [
            (*(slice(None),) * d.at, slice(start // d.block, None if last else stop // d.block)) for d in (src, dst)
        ]
        slices.append((index[0], index[1], [*axes[:at], part, *axes[at + 1 :]]))
    return slices


# ---- 4. loops -----------------------------------------------------------------------------------------------------


class Segment(NamedTuple):
    """Part of an axis that is affine on both sides: offsets and nested loops, outermost first."""

    src: int
    dst: int
    loops: tuple[Loop, ...]
    factor: int = 0


Chain = tuple[tuple[int, int], ...]  # (block, stride), outermost first
_NOTHING: Chain = ((1, 0),)


def pieces(
    extent: int, padded: int, src: Chain, dst: Chain, factor: int = 0
) -> list[tuple[Loop | None, list[Segment]]]:
    """Cut an axis into pieces: a loop over whole periods, and what is left.

    With blocks b1 and b2 a period is their least common multiple, and holds b1/g + b2/g - 1 segments, g = gcd(b1, b2).
    `factor` is 1 for the axis along which factors change, else 0.
    """
    src, dst = src or _NOTHING, dst or _NOTHING
    if len(src) == len(dst) == 1 and extent == padded:
        return [(Loop(extent, extent, src[0][1], dst[0][1], factor), [Segment(0, 0, ())])] if extent else []
    period = math.lcm(src[0][0], dst[0][0])
    n = extent // period
    found: list[tuple[Loop | None, list[Segment]]] = []
    if n:
        loop = Loop(n, n, period // src[0][0] * src[0][1], period // dst[0][0] * dst[0][1], period * factor)
        found.append((loop, segments(period, period, 0, 0, src, dst, factor)))
    if padded > n * period:
        at = n * period
        rest = segments(padded - at, extent - at, 0, 0, src, dst, factor)
        ahead = at // src[0][0] * src[0][1], at // dst[0][0] * dst[0][1], at * factor
        found.append((None, [_moved(s, *ahead) for s in rest]))
    return found


def _moved(s: Segment, src: int, dst: int, factor: int) -> Segment:
    """The segment further on."""
    return Segment(s.src + src, s.dst + dst, s.loops, s.factor + factor)


def segments(n: int, valid: int, src_at: int, dst_at: int, src: Chain, dst: Chain, factor: int = 0) -> list[Segment]:
    """Cut `n` steps of an axis, of which `valid` have a source, at every block border of either chain.

    `src_at` and `dst_at` are where the steps begin, counted in the first block of each chain.
    """
    if valid <= 0:
        valid, src_at, src, factor = 0, 0, _NOTHING, 0
    valid = min(valid, n)
    if len(src) == len(dst) == 1:
        loop = Loop(n, valid, src[0][1], dst[0][1], factor)
        return [Segment(src_at * src[0][1], dst_at * dst[0][1], (loop,))]
    period = math.lcm(src[0][0], dst[0][0])
    whole = (valid or n) // period
    if whole == 0 or n == period:
        return _cut(n, valid, src_at, dst_at, src, dst, factor)
    steps = period // src[0][0] * src[0][1], period // dst[0][0] * dst[0][1], period * factor
    inside = segments(period, valid and period, src_at, dst_at, src, dst, factor)
    loop = Loop(whole, whole, *steps)
    found = [s._replace(loops=(loop, *s.loops)) for s in inside]
    done = whole * period
    if done < n:
        rest = segments(n - done, valid - done, src_at, dst_at, src, dst, factor)
        found += [_moved(s, whole * steps[0], whole * steps[1], whole * steps[2]) for s in rest]
    return found


def _cut(n: int, valid: int, src_at: int, dst_at: int, src: Chain, dst: Chain, factor: int) -> list[Segment]:
    """At most a period: one segment list for each stretch inside one block of both chains."""
    found: list[Segment] = []
    done = 0
    while done < n:
        step, offsets, inner = n - done, [0, 0], []
        for side, (at, chain) in enumerate(((src_at + done, src), (dst_at + done, dst))):
            block, stride = chain[0]
            if len(chain) > 1:
                offsets[side] = at // block * stride
                step = min(step, block - at % block)
                inner.append((at % block, chain[1:]))
            else:
                inner.append((at, chain))
        (src_in, src_rest), (dst_in, dst_rest) = inner
        inside = segments(step, valid - done, src_in, dst_in, src_rest, dst_rest, factor)
        found += [_moved(s, offsets[0], offsets[1], done * factor) for s in inside]
        done += step
    return found


# ---- 5. groups ----------------------------------------------------------------------------------------------------


class Box(NamedTuple):
    """A rectangle of the output with one affine map to the input, and how to run it.

    Loop numbers count the group's loops first, then the box's own.
    """

    src_offset: int
    dst_offset: int
    factor_offset: int
    loops: tuple[Loop, ...]
    width: int
    panel: Panel
    tiling: Tiling


class Group(NamedTuple):
    """Boxes that share loops; a chunk of work is `steps` iterations of each shared loop, with all boxes."""

    src_offset: int
    dst_offset: int
    factor_offset: int
    loops: tuple[Loop, ...]
    steps: tuple[int, ...]
    boxes: tuple[Box, ...]
    chunks: int


def plan_groups(
    axes: Sequence[LinearAxis],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
    itemsize: int,
    chunk_bytes: int,
    streams: bool | None = False,
    cast: Cast | None = None,
) -> list[Group]:
    """The boxes of a conversion in the order of the output, grouped, with their kernels and chunks.

    The boxes tile the output exactly: every element of the output belongs to one iteration of one box. `itemsize` is
    that of the output; `cast` says what else becomes of the elements.
    """
    cut = []
    for axis in axes:
        src = tuple((d.block, src_strides[d.at] * d.times) for d in axis.src)
        dst = tuple((d.block, dst_strides[d.at] * d.times) for d in axis.dst)
        factor = int(cast is not None and axis.names == (cast.channel_axis,))
        cut.append(pieces(axis.extent, axis.padded, src, dst, factor))
    groups: list[Group] = []
    for choice in itertools.product(*cut):
        groups += _cut_boxes(_group(choice, itemsize, chunk_bytes, streams, cast), chunk_bytes, streams, cast)
    return sorted(groups, key=lambda g: g.dst_offset + min(b.dst_offset for b in g.boxes))


def _group(
    choice: tuple[tuple[Loop | None, list[Segment]], ...],
    itemsize: int,
    chunk_bytes: int,
    streams: bool | None,
    cast: Cast | None,
) -> Group:
    shared = [loop for loop, _ in choice if loop]
    parts = []
    for _, found in choice:
        if len(found) == 1:
            # The only segment of its piece: its loops are the same for all boxes. A loop that runs into padding
            # stays in the box, since shared loops have no bounds to look at.
            shared += [loop for loop in found[0].loops if loop.valid == loop.extent]
            found = [found[0]._replace(loops=tuple(loop for loop in found[0].loops if loop.valid != loop.extent))]
        parts.append(found)
    widths = cast.src_width if cast else itemsize, itemsize
    offsets, shared = merge_loops(shared, widths)
    width = itemsize
    if shared and not cast and _widens(shared[-1], width):
        width *= shared.pop().extent
    boxes = []
    for combination in itertools.product(*parts):
        (src, dst, factor), loops = merge_loops([loop for s in combination for loop in s.loops], widths)
        src += sum(s.src for s in combination)
        dst += sum(s.dst for s in combination)
        factor += sum(s.factor for s in combination)
        boxes.append(_box((src, dst, factor), shared, loops, width, streams, cast))
    boxes.sort(key=lambda b: b.dst_offset)
    size = math.prod(loop.extent for loop in shared)
    size *= sum(math.prod(loop.extent for loop in b.loops) * b.width for b in boxes)
    steps = chunk_steps(shared, boxes[0].panel, boxes[0].tiling, size, chunk_bytes)
    chunks = math.prod(-(-loop.extent // step) for loop, step in zip(shared, steps, strict=True))
    return Group(*offsets, tuple(shared), steps, tuple(boxes), chunks)


def _cut_boxes(group: Group, chunk_bytes: int, streams: bool | None, cast: Cast | None) -> list[Group]:
    """The group itself, or one group for each part of its boxes where these are blocks of many megabytes.

    Only shared loops are cut into chunks. A whole block as one chunk would keep all threads but one idle, and Ctrl-C
    would wait for its end.
    """
    sizes = [math.prod(group.steps) * math.prod(loop.extent for loop in b.loops) * b.width for b in group.boxes]
    if sum(sizes) <= 2 * chunk_bytes:
        return [group]
    parts = []
    for box, size in zip(group.boxes, sizes, strict=True):
        for (src_at, dst_at, factor_at), cut in cut_loops(box.loops, size, chunk_bytes):
            (src, dst, factor), own = merge_loops(cut, (cast.src_width if cast else box.width, box.width))
            src += box.src_offset + src_at
            dst += box.dst_offset + dst_at
            factor += box.factor_offset + factor_at
            parts.append(group._replace(boxes=(_box((src, dst, factor), group.loops, own, box.width, streams, cast),)))
    return parts


def merge_loops(loops: Iterable[Loop], widths: tuple[int, int]) -> tuple[Offsets, list[Loop]]:
    """Offsets and the fewest loops that do the same, by falling destination stride.

    A loop of one iteration vanishes; a loop that goes on where the next inner one ends is merged with it. Every loop
    goes forward in the output, but for the one whose words are neighbours in the input alone: kernels want it to go
    forward there (channels the other way round, BGR to planes, then move as fast as those in order). `widths` are those
    of a word of input and output.
    """
    src_offset = dst_offset = factor_offset = 0
    live = []
    for loop in loops:
        if loop.extent == loop.valid == 1:
            continue
        across = abs(loop.src) == widths[0] and abs(loop.dst) != widths[1]
        if (loop.src if across else loop.dst) < 0 and loop.valid == loop.extent:
            src_offset += (loop.extent - 1) * loop.src
            dst_offset += (loop.extent - 1) * loop.dst
            factor_offset += (loop.extent - 1) * loop.factor
            loop = loop._replace(src=-loop.src, dst=-loop.dst, factor=-loop.factor)
        live.append(loop)
    live.sort(key=lambda loop: -abs(loop.dst))
    merged: list[Loop] = []
    for inner in live:
        outer = merged[-1] if merged else None
        if (
            outer
            and outer.valid == outer.extent
            and inner.valid == inner.extent
            and outer.src == inner.src * inner.extent
            and outer.dst == inner.dst * inner.extent
            and outer.factor == inner.factor * inner.extent
        ):
            n = outer.extent * inner.extent
            merged[-1] = Loop(n, n, inner.src, inner.dst, inner.factor)
        else:
            merged.append(inner)
    return (src_offset, dst_offset, factor_offset), merged


def _widens(loop: Loop, width: int) -> bool:
    """Whether the loop moves neighbouring words that together are one larger word of the kernels (16 bytes at most)."""
    return loop.valid == loop.extent and loop.src == loop.dst == width and width * loop.extent in (2, 4, 8, 16)


def _box(
    offsets: Offsets, shared: Sequence[Loop], own: list[Loop], width: int, streams: bool | None, cast: Cast | None
) -> Box:
    if own and not cast and _widens(own[-1], width) and not any(abs(loop.dst) < own[-1].dst for loop in shared):
        width *= own[-1].extent
        own = own[:-1]
    loops = (*shared, *own)
    if cast:
        panel = choose_panel(loops, cast.src_width, width, False)
        panel, tiling = choose_cast(loops, panel, cast, width, bool(streams))
    else:
        panel = choose_panel(loops, width, width, bool(streams))
        panel, tiling = choose_tiling(loops, panel, width, streams)
    return Box(*offsets, tuple(own), width, panel, tiling)


def is_identity(groups: Sequence[Group]) -> bool:
    """Whether every element of the output lies where it lies in the input, and nothing is padding."""
    return all(
        group.src_offset == group.dst_offset
        and all(loop.src == loop.dst for loop in group.loops)
        and all(
            box.src_offset == box.dst_offset
            and all(loop.src == loop.dst and loop.valid == loop.extent for loop in box.loops)
            for box in group.boxes
        )
        for group in groups
    )


def explain(groups: Sequence[Group]) -> str:
    """The groups as text: one line a box."""
    lines = []
    for group in groups:
        head = " x ".join(f"{loop.extent}" for loop in group.loops) or "1"
        lines.append(f"group at byte {group.dst_offset}: shared loops {head}, {group.chunks} chunk(s)")
        for box in group.boxes:
            loops = (*group.loops, *box.loops)
            own = " x ".join(
                f"{loop.extent}" if loop.valid == loop.extent else f"{loop.extent} ({loop.valid} valid)"
                for loop in box.loops
            )
            lines.append(
                f"  box at byte {group.dst_offset + box.dst_offset}: own loops {own or '1'}; "
                f"{_explain_panel(loops, box.panel, box.tiling, box.width)}"
            )
    return "\n".join(lines)


def _explain_panel(loops: Sequence[Loop], panel: Panel, tiling: Tiling, width: int) -> str:
    planes, rows, cols = (loops[i].extent if i >= 0 else 1 for i in (panel.plane, panel.row, panel.col))
    words = [
        f"panels of {planes} x {rows} x {cols} words of {width} bytes by {panel.kernel}",
        f"tiles of {min(rows, tiling.row_tile)} x {min(cols, tiling.col_tile)}",
    ]
    if tiling.plane_tile:
        words.append(f"{tiling.plane_tile} planes at a time")
    if tiling.gather:
        words.append("source lines gathered in scratch")
    if tiling.scatter:
        words.append("output lines made in scratch")
    if tiling.converts:
        words.append(f"numbers converted {tiling.converts}")
    if tiling.scratch_rows:
        words.append(f"through scratch by {tiling.scratch_rows} rows")
    if tiling.ahead:
        words.append(f"prefetching {tiling.ahead} bytes ahead")
    if tiling.streams:
        words.append("streaming stores")
    return ", ".join(words)
