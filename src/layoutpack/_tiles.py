"""How a box is run: which of its loops make the panel, the kernel, the tiles, and what goes through scratch.

Every number here was measured. Unless said otherwise: Zen 3, one thread, 13 GB/s of memcpy out of the caches and 50 to
70 inside, shares of memcpy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Loop(NamedTuple):
    """`extent` iterations, the first `valid` of which have a source, with a source and a destination stride.

    `factor`: steps from channel to channel, where each has a scale and a bias of its own.
    """

    extent: int
    valid: int
    src: int
    dst: int
    factor: int = 0


Offsets = tuple[int, int, int]  # of source and destination in bytes, and of factors


class Cast(NamedTuple):
    """Numbers that become others on the way: types by name, bytes of a number of the source, and the factors.

    scaled
        Each becomes ``x * scale + bias``.
    channel_axis
        The axis along which scale and bias change; empty where they are the same for all.
    """

    src: str
    dst: str
    src_width: int
    scaled: bool = False
    channel_axis: str = ""


class Panel(NamedTuple):
    """Which loops are the planes, rows and columns of the panel (-1: none), which are around it, and the kernel."""

    nest: tuple[int, ...]
    plane: int
    row: int
    col: int
    kernel: str


class Tiling(NamedTuple):
    """Tiles of a panel and their way. Zero or False: not used.

    row_tile, col_tile
        Rows and columns that one call of the kernel converts.
    plane_tile
        Planes that come together; then the loops around the panel run, then the next planes come.
    streams
        Stores bypass the caches.
    scratch_rows
        Rows, or for copies rows of a piece, that are made before they are streamed.
    scratch_run
        The rows lie side by side and become one run.
    scratch_cols
        Columns that one call brings to scratch.
    ahead
        Bytes of source from what is converted to what is prefetched.
    gather, scatter
        A tile's source lines are brought together first; its output lines are stored together at last.
    converts
        When numbers are converted: "before" a tile is moved, "after" that, or "alone", where nothing else is to do;
        unless a kernel of the instruction set does both at once.
    by_row
        The lines that are converted before run along the rows, not the columns.
    """

    row_tile: int = 1
    col_tile: int = 1
    plane_tile: int = 0
    streams: bool = False
    scratch_rows: int = 0
    scratch_run: bool = False
    scratch_cols: int = 0
    ahead: int = 0
    gather: bool = False
    scatter: bool = False
    converts: str = ""
    by_row: bool = False


LINE = 64  # bytes

_TILE = 64  # words on either side of a panel's tile
_TILE_WORDS = 32768  # of a tile where a side is shorter: its lines are then long, and the processor prefetches them.
# 4096, 16384 and 32768 words (fp16 unless it says more): 0.83, 0.92, 1.0 (NHWC with 64 channels), 0.80, 0.92, 0.94
# (NC1HWC0 back), 0.62, 0.83, 0.85 (NHWC back), fp32 with 200 channels 0.58, 1.24, 1.1, with 2048 0.36, 0.44, 0.48, 1000
# x 1000 0.52, 0.86, 0.87; uint8 NHWC back with three channels 0.81, 0.88, 0.92, where tiles of no whole lines lose 0.1.
# Past the caches, where they are made in scratch, 64 columns at a time (_TILE) stay the best: more lose up to 0.25.
_SPAN = 256 << 20  # bytes of output from end to end of a chunk: a first touch, of huge pages too, stays below 0.1 s
_COPY_TILE = 32768  # bytes of runs that are copied together, so that lines shared by neighbouring runs are met once

# Past the caches.
_RUN = 2048  # bytes of a block of a run; 4 KiB lose a fifth
# Of many lines of 4-byte words, and of numbers to be converted, longer pieces are read, and the processor's own
# prefetching does: 64 bytes 0.58, 256 bytes 0.55, 512 bytes 0.66, 1 KiB 0.8 (fp32 to NHWC, 64 channels). Words of 2
# bytes gain nothing.
_FEW_LINES = 16
_LONG_LINE = 1024  # bytes of each
_LONG_RUN = 65536  # bytes of a block of a run then
_RUN_PITCH = 512  # bytes of its rows at the most, so that 16 of them are 8 KiB; odd rows, which no segment fits, 4 KiB
_SEGMENT = 256  # bytes of a row that are stored together otherwise
_ROWS = 256  # rows of which such segments are made at once: 32 rows 0.5, 64 rows 0.7, 256 rows 0.8 (fp32 to NHWC)
_CALL = 1024  # bytes of source for one call of the kernel between two stretches of prefetching (NC1HWC0 back uint8:
# 4 KiB 0.65, 2 KiB 0.8, 1 KiB 0.95) ...
_CALL_AHEAD = 4096  # ... and how far ahead
_AHEAD = 256  # bytes from what is converted to what is prefetched: none 0.5, 128 to 512 bytes 0.8 (fp16 to NHWC)
_AHEAD_ALL = 32768  # bytes prefetched altogether at the most: a first-level cache
_PIECE = 4096  # bytes of a piece of a run of short rows
_REACH = 65536  # bytes of source that its rows span; at a pitch of 8 KiB 16 rows 1.6, 64 rows 0.9 (ND to FRACTAL_NZ)

# Small blocks side by side: planes that come together (FRACTAL_Z fp32 back 0.2 -> 0.4, forward past the caches 0.35 ->
# 0.7, and 0.85 -> 1.2 where the next blocks are prefetched; in them 5 x 5 weights of 256 outputs, whose lines lie at
# power-of-two pitches, fp16 0.2 -> 0.26, fp32 0.17 -> 0.31, where 3 x 3 weights lose a tenth). Such pieces of lines are
# streamed well before others gain by it: 5 x 5 weights of 2.4 MB 0.27 -> 0.33, of 4.9 MB 0.26 -> 0.46, of 1.5 MB 0.35
# -> 0.28.
_PLANES_READ = 32
_PLANES_WRITTEN = 16
_SCRATCH = 48 * 1024  # bytes for them: half of what the engine has
_FEW_ROWS = 16  # of a block: so many of its output's lines stay in a first-level cache at any pitch
_SCATTERED = 2 << 20  # bytes of output

# Lines at a multiple of so many bytes fall into a few sets of a first-level cache, and push each other out half used:
# NHWC with 2048 channels of 2 bytes 0.17, by way of scratch 0.42. Gathering words of 4 and more bytes, of which fewer
# lines are open at a time, was measured to lose (1024 x 1024 fp32: 0.44 without, 0.22).
_ALIAS = 2048
_STRETCH = 512  # bytes of a line that are gathered or scattered together, where 256 bytes lose 3 to 15 percent; half of
# them where both are, and of rows that are made neighbours
_PIXELS = 8192  # bytes of pixels that are put in order together
_ACROSS = 64  # lines of such a tile

# Numbers that are converted (fp32 to fp16 unless it says otherwise).
_NUMBERS = 4096  # numbers of a tile; 1024 0.53, 2048 0.50, 4096 0.62 (NC1HWC0 in cache)
_BYTES = 16384  # the same where they are pixels of bytes, which become planes in one step: 4096 19 us, 8192 17.5, 16384
# 15.5 (224 x 224 pixels to float32)
_SHORT = 16  # numbers: a shorter line costs more than its numbers
_LINE_READ = 512  # bytes of a line that are converted together before they are moved: 64 bytes 0.4, 128 bytes, which
# the processor's prefetcher takes for the beginning of more, 0.06, 256 bytes 0.25, 512 bytes 0.7 (NHWC in cache)
_CAST_LINE = 128  # the same past the caches, with prefetching: 64 bytes 0.84, 128 bytes 1.2, 256 bytes 0.7 (NC1HWC0);
# of more than _FEW_LINES 128 bytes 0.45, 512 bytes 0.5, 1 KiB 0.65 to 0.8 (NHWC with 32 to 128 channels)
_CAST_RUN = 8192  # bytes of a block of a run otherwise: 4 KiB 0.59, 8 KiB 0.68, 32 KiB 0.52 (uint8 to NC1HWC0)


def choose_panel(loops: Sequence[Loop], src_width: int, width: int, streams: bool) -> Panel:
    """The columns run along the output's fastest loop, the rows along the input's."""
    order = sorted(range(len(loops)), key=lambda i: -abs(loops[i].dst))
    if not order:
        return Panel((), -1, -1, -1, "copy")
    col = order.pop()
    fast = loops[col]
    if fast.src == src_width and fast.dst == width:
        row = order.pop() if order else -1
        plane = -1
        if order:
            # The planes are the source's neighbouring runs: then tiles of few rows and all planes meet whole lines. Of
            # rows there are more than of planes, but for runs past the caches, whose rows lie side by side.
            plane = min(order, key=lambda i: (abs(loops[i].src) or 1 << 62, abs(loops[i].dst)))
            order.remove(plane)
            turned = abs(loops[plane].src) < abs(loops[row].src)  # else the order of the output is the input's too
            if not streams and turned and loops[plane].extent > loops[row].extent:
                row, plane = plane, row
        return Panel(tuple(order), plane, row, col, "copy")
    nearer = [i for i in order if loops[i].src and (abs(loops[i].src) < abs(fast.src) or not fast.src)]
    row = min(nearer, key=lambda i: abs(loops[i].src)) if nearer else (order[-1] if order else -1)
    kernel = "strided"
    if row >= 0 and fast.dst == width and loops[row].src:
        # Rows that are no neighbours in the input (flipped, every second, a field of a record) are made so in scratch.
        near = width in (1, 2, 4, 8) and abs(loops[row].src) < abs(fast.src)
        if loops[row].src == src_width or near:
            kernel = "transpose"
    return Panel(tuple(i for i in order if i != row), -1, row, col, kernel)


def choose_tiling(loops: Sequence[Loop], panel: Panel, width: int, streams: bool | None) -> tuple[Panel, Tiling]:
    """The tiling; and the panel again, for which planes may have been found. `streams` None leaves that to it."""
    rows, cols = (loops[i].extent if i >= 0 else 1 for i in (panel.row, panel.col))
    padded = any(loop.valid != loop.extent for loop in loops)
    pitch = loops[panel.row].dst if panel.row >= 0 else 0
    if panel.kernel == "copy":
        if streams and not padded and pitch == cols * width and pitch in (16, 32, 64):
            reach = max(abs(loops[panel.row].src), 1)
            pieces = max(min(_REACH // reach, _PIECE // pitch), 16)
            return panel, Tiling(rows, cols, streams=True, scratch_rows=pieces, scratch_run=True, ahead=_AHEAD)
        planes = loops[panel.plane].extent if panel.plane >= 0 else 1
        if panel.plane < 0 or abs(loops[panel.plane].src) > abs(loops[panel.row].src):
            return panel, Tiling(max(rows, 1), max(cols, 1))  # both sides go on in the same order
        return panel, Tiling(max(_COPY_TILE // max(planes * cols * width, 1), 16), max(cols, 1))
    # Of whole lines, so that all tiles begin on lines where the first does.
    col_tile = max(min(cols, _TILE), _TILE_WORDS // max(min(rows, _TILE), 1) // _TILE * _TILE)
    row_tile = max(_TILE, _TILE_WORDS // max(min(cols, col_tile), 1) // _TILE * _TILE)
    small = rows <= row_tile and cols <= col_tile
    if panel.kernel == "strided" and panel.row >= 0 and abs(loops[panel.row].src) > abs(loops[panel.col].src) > 0:
        return panel, Tiling(max(rows, 1), max(cols, 1))  # the same order on both sides again
    mirrored = panel.kernel == "transpose" and loops[panel.col].src == -rows * width and rows * width < 16
    if panel.kernel == "transpose" and (loops[panel.row].src != width or mirrored):
        if padded:
            return panel._replace(kernel="strided"), Tiling(row_tile, max(col_tile, 1))
        if rows * width < 16:  # pixels, which lie side by side in scratch
            return panel, Tiling(rows, min(cols, _PIXELS // (rows * width)), gather=True)
        return panel, Tiling(min(rows, _STRETCH // 2 // width), min(cols, _ACROSS), gather=True)
    if small:
        # As in FRACTAL_Z: blocks that lie side by side in the input, or in the output, which matters past the caches.
        read = [i for i in panel.nest if loops[i].src == rows * width]
        written = [i for i in panel.nest if loops[i].dst == cols * width and not padded]
        many, size = rows > _FEW_ROWS, math.prod(loop.extent for loop in loops) * width
        past = streams is True or (streams is None and many and size >= _SCATTERED)
        if not past and not (many and pitch % _ALIAS == 0):
            written = []
        for plane in (*read, *written):
            number = _PLANES_READ
            if plane in written:
                number = min(_PLANES_WRITTEN, (_SCRATCH // rows - 2 * LINE) // (cols * width))
                if number < 2:
                    continue
            few = loops[plane].extent <= number or len(panel.nest) == 2
            if few and loops[plane].valid == loops[plane].extent:
                scatter = plane in written
                panel = _with_plane(panel, plane)
                ahead = abs(loops[panel.nest[-1]].src) if streams and scatter and panel.nest else 0
                return panel, Tiling(rows, cols, number, streams=scatter and past, scatter=scatter, ahead=ahead)
    if streams and panel.kernel == "transpose":
        if pitch == cols * width and (pitch <= _RUN_PITCH or (pitch % LINE and pitch <= 8 * _RUN_PITCH)):
            block = max(_RUN // pitch, 32 // width if pitch <= _RUN_PITCH else 16, 16) // 16 * 16
            ahead = min(_AHEAD, _AHEAD_ALL // cols // LINE * LINE)
            if width >= 4 and cols > _FEW_LINES:
                block = max(min(_LONG_LINE // width, _LONG_RUN // pitch // 16 * 16), 16)
                ahead = 0
            run = Tiling(row_tile, col_tile, streams=True, scratch_rows=block, scratch_run=True, scratch_cols=_TILE)
            return panel, run._replace(ahead=ahead)
        if LINE % width == 0 and cols * width >= 512 and pitch >= 512:
            block = min(rows, _ROWS)
            call = max(_CALL // (block * width) // 16 * 16, 16, 32 // width)
            step = call * loops[panel.col].src
            segments = Tiling(row_tile, _SEGMENT // width, streams=True, scratch_rows=block, scratch_cols=call)
            return panel, segments._replace(ahead=step * max(_CALL_AHEAD // max(abs(step), 1), 1))
    if small and panel.nest and not streams:
        # A panel of one tile is small: its neighbours come in the same call, which costs 5 to 10 ns.
        panel = _with_plane(panel, panel.nest[-1])
    if panel.kernel == "transpose" and width in (1, 2, 4, 8) and not padded:
        gather = width <= 2 and cols > 8 and rows * width >= LINE and loops[panel.col].src % _ALIAS == 0
        scatter = rows > (8 if width <= 2 else 16) and cols * width >= LINE and pitch % _ALIAS == 0
        both = gather and scatter
        long = max(_STRETCH // 2 // width, 32) if both else _STRETCH // width
        across = min(_STRETCH // 2 // width, _ACROSS) if both else _ACROSS
        if gather or scatter:
            tile = (long, across) if gather else (across, long)
            return panel, Tiling(*tile, plane_tile=0, gather=gather, scatter=scatter)
    return panel, Tiling(row_tile, max(col_tile, 1))


def choose_cast(loops: Sequence[Loop], panel: Panel, cast: Cast, width: int, streams: bool) -> tuple[Panel, Tiling]:
    """The panel and tiling of a box whose numbers are converted.

    Numbers are moved where they are narrow: before they become wider, or after they became narrower. So tiles pass
    through scratch once, but for lines that are lines on both sides, and for what kernels convert in registers.
    """
    if panel.plane >= 0:
        nest = sorted((*panel.nest, panel.plane), key=lambda i: -abs(loops[i].dst))
        panel = panel._replace(nest=tuple(nest), plane=-1)
    one = Loop(1, 1, cast.src_width, width)
    row, col = (loops[i] if i >= 0 else one for i in (panel.row, panel.col))
    rows, cols = row.extent, col.extent
    whole = col.valid == cols
    side_by_side = whole and row.dst == cols * width
    long = col.dst == width and (side_by_side or col.valid >= _SHORT)
    by_row = False
    if panel.kernel == "copy" and (
        panel.row < 0 or col.valid >= _SHORT or (side_by_side and row.src == cols * col.src)
    ):
        converts, row_tile, col_tile = "alone", rows, cols
    else:
        converts = "after" if long and (cast.src_width <= width or panel.kernel == "strided") else "before"
        if converts == "before":
            by_row = panel.row >= 0 and panel.kernel != "copy" and abs(row.src) < abs(col.src)
            kernel = "strided" if col.dst != width else "transpose" if by_row else "copy"
            panel = panel._replace(kernel=kernel)
        elif panel.kernel == "transpose" and row.src != cast.src_width:
            panel = panel._replace(kernel="strided")
        line = _LINE_READ // cast.src_width if by_row else _TILE
        pixels = converts == "after" and cast.src_width == 1 and 0 < col.src <= 4 and abs(row.src) == 1
        numbers = _BYTES if pixels else _NUMBERS
        col_tile = max(min(cols, numbers // line), numbers // max(min(rows, line), 1))
        if converts == "before" and not by_row:
            col_tile = min(max(cols, 1), _NUMBERS)
        row_tile = max(numbers // max(min(col.valid, col_tile), 1), 1)
    plain = Tiling(row_tile, col_tile, converts=converts, by_row=by_row)
    if not streams or col.dst != width or LINE % width:
        return panel, plain
    if row.dst == cols * width and panel.row >= 0 and row.dst <= (_RUN_PITCH // 2 if by_row else _RUN_PITCH):
        line = _CAST_LINE if cols <= _FEW_LINES else _LONG_LINE
        block = max(min(line // cast.src_width, _LONG_RUN // row.dst) if by_row else _CAST_RUN // row.dst, 16)
        ahead = _AHEAD if by_row and cols <= _FEW_LINES else 0
        few = min(cols, max(_NUMBERS // block // 16 * 16, 16)) if by_row else cols
        run = plain._replace(streams=True, scratch_rows=block, scratch_run=True, scratch_cols=few, col_tile=few)
        return panel, run._replace(ahead=ahead)
    if cols * width >= 512 and (panel.row < 0 or row.dst >= 512):
        block = 1 if converts == "alone" else min(rows, _ROWS)
        segment = max(_SEGMENT, 2 * _RUN // block // _SEGMENT * _SEGMENT) // width
        call = min(max(_NUMBERS // block // 16 * 16, 16), segment)
        step = abs(call * col.src)
        segments = plain._replace(streams=True, scratch_rows=block, scratch_cols=call, col_tile=segment)
        return panel, segments._replace(ahead=step * max(_CALL_AHEAD // max(step, 1), 1))
    return panel, plain


def _with_plane(panel: Panel, plane: int) -> Panel:
    return panel._replace(plane=plane, nest=tuple(i for i in panel.nest if i != plane))


def chunk_steps(loops: Sequence[Loop], panel: Panel, tiling: Tiling, size: int, chunk_bytes: int) -> tuple[int, ...]:
    """Iterations of each of a group's loops in a chunk, so that a chunk writes about `chunk_bytes` of the `size`.

    The loops around the panel are cut first, the outermost of the output first; then the panel itself into whole
    tiles, since a strip of one channel of three would read every line of the input three times. But before all, no
    chunk reaches over more than `_SPAN`: strips as high as an output of gigabytes would touch all its pages at once,
    and Ctrl-C would wait for them.
    """
    steps = [loop.extent for loop in loops]
    shared = range(len(loops))
    ordered = panel.plane in shared and panel.row in shared and abs(loops[panel.plane].src) > abs(loops[panel.row].src)
    outer = (panel.plane,) if tiling.plane_tile or (panel.kernel == "copy" and ordered) else ()
    around = [i for i in (*(outer if tiling.plane_tile else ()), *panel.nest, *outer) if i in shared]
    # Rows that lie side by side stay so, and planes.
    divisible = (panel.row,) if tiling.scratch_run or tiling.plane_tile else (panel.row, panel.col)
    inside = [i for i in divisible if i in shared]
    if panel.kernel != "copy":  # whose runs are cut last
        inside.sort(key=lambda i: -loops[i].extent)
    planes = [panel.plane] if panel.plane in shared and not outer else []
    order = (*around, *inside, *planes)

    def cut(i: int, most: int) -> None:
        """Chunks of even size, of `most` iterations or the whole tiles that hold so many."""
        nonlocal size
        unit = _TILE if i in inside else max(tiling.plane_tile, 1) if i in outer else 1
        step = -(-max(most, 1) // unit) * unit
        step = -(-steps[i] // -(-steps[i] // step))
        step = min(-(-step // unit) * unit, steps[i])
        size = max(size // steps[i], 1) * step
        steps[i] = step

    for i in order:
        if loops[i].extent * abs(loops[i].dst) > _SPAN:
            cut(i, _SPAN // abs(loops[i].dst))
    for i in order:
        if size <= chunk_bytes:
            break
        cut(i, chunk_bytes // max(size // steps[i], 1))
    return tuple(steps)


def cut_loops(loops: Sequence[Loop], size: int, chunk_bytes: int) -> Iterator[tuple[Offsets, list[Loop]]]:
    """Parts of a box that writes `size` bytes, of about `chunk_bytes`, outermost loops cut first.

    Yields where each part begins, and its loops.
    """
    steps = []
    for loop in loops:
        step = loop.extent
        if size > chunk_bytes:
            step = min(max(step * chunk_bytes // size // _TILE, 1) * _TILE, step)
            size = size * step // loop.extent
        steps.append(step)
    for starts in itertools.product(*(range(0, loop.extent, step) for loop, step in zip(loops, steps, strict=True))):
        src_at = dst_at = factor_at = 0
        part = []
        for loop, start, step in zip(loops, starts, steps, strict=True):
            # A part of nothing but padding has no source, not even one to begin at.
            valid = min(max(loop.valid - start, 0), step)
            part.append(loop._replace(extent=min(step, loop.extent - start), valid=valid))
            src_at += min(start, loop.valid) * loop.src
            dst_at += start * loop.dst
            factor_at += min(start, loop.valid) * loop.factor
        yield (src_at, dst_at, factor_at), part
