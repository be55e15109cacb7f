# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The engine: runs the boxes of a plan over memory, on one thread or several.

Below `Program.run` nothing can fail: shapes, strides and overlap were checked before, in Python.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.stdint cimport uintptr_t
from libc.stdlib cimport getenv
from libc.string cimport memcpy, memmove

from layoutpack._kernels cimport (
    LP_FILL_BYTES,
    LP_MAX_LOOPS,
    LP_WORDS,
    lp_box,
    lp_factors,
    lp_group,
    lp_kernels,
    lp_kernels_available,
    lp_kernels_built,
    lp_lines,
    lp_loop,
    lp_panel,
    lp_prefetch,
)

import os
import threading

cnp.import_array()

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    enum { lp_openmp = _OPENMP };
    #else
    enum { lp_openmp = 0 };
    static int omp_get_max_threads(void) { return 1; }
    static int omp_in_parallel(void) { return 0; }
    #endif
    #if defined __clang__
    #define LP_COMPILER "clang " __clang_version__
    #elif defined __GNUC__
    #define LP_COMPILER "gcc " __VERSION__
    #elif defined _MSC_VER
    #define LP_COMPILER "msvc"
    #else
    #define LP_COMPILER "unknown"
    #endif
    """
    const int lp_openmp
    const char *LP_COMPILER
    int omp_get_max_threads() noexcept nogil
    int omp_in_parallel() noexcept nogil

cdef extern from "layoutpack/runtime.h" nogil:
    const int LP_HAS_CREW
    ctypedef void (*lp_task)(void *argument, ptrdiff_t chunk) noexcept nogil
    ctypedef int (*lp_check)() except -1 nogil
    ctypedef struct lp_crew:
        pass
    ctypedef void (*lp_team)(lp_crew *crew, int first, int count) noexcept nogil
    void lp_set_team(lp_team team) noexcept
    void lp_serve(lp_crew *crew, int index) noexcept
    int lp_run(lp_task task, void *argument, ptrdiff_t chunks, int threads, lp_check check) except -1

OPENMP = lp_openmp
COMPILER = LP_COMPILER.decode()


# ---- instruction sets ---------------------------------------------------------------------------------------------

cdef const lp_kernels *chosen = NULL


def isa_built():
    """Names of the instruction sets in this build, best first."""
    cdef int i = 0
    names = []
    while lp_kernels_built(i) != NULL:
        names.append(lp_kernels_built(i).isa.decode())
        i += 1
    return names


def isa_available():
    """Names of the built instruction sets that this processor runs, best first."""
    return [name for i, name in enumerate(isa_built()) if lp_kernels_available(lp_kernels_built(i))]


def isa_chosen():
    """Name of the instruction set in use."""
    return chosen.isa.decode()


cdef const lp_kernels *find_kernels(str isa) except NULL:
    built, available = isa_built(), isa_available()
    if isa not in available:
        raise ValueError(f"{isa!r}: this build has {', '.join(built)}, this processor runs {', '.join(available)}")
    return lp_kernels_built(built.index(isa))


def _choose_isa(wanted):
    global chosen
    try:
        chosen = find_kernels(wanted or isa_available()[0])
    except ValueError as error:
        raise ImportError(f"LAYOUTPACK_ISA={error}") from None


_choose_isa(os.environ.get("LAYOUTPACK_ISA", "").strip().lower())


# ---- the loop nest ------------------------------------------------------------------------------------------------

cdef inline ptrdiff_t clip(ptrdiff_t n, ptrdiff_t high) noexcept nogil:
    return 0 if n < 0 else high if n > high else n


cdef enum:
    LINE = 64
    SCRATCH = 96 * 1024  # bytes, on the stack of each thread
    RUNS = 16
    RUN = 2048  # bytes of planes that become one block of a run
    NUMBERS = 48 * 1024  # bytes for numbers on their way, and again before them where they were no neighbours
    BEFORE = 1
    AFTER = 2
    ALONE = 3


# Output on its way past the caches: whole lines are stored, what is left waits in front of the next block.
cdef struct sink:
    char *next           # where the next block belongs if it goes on; behind what waits
    ptrdiff_t waiting    # bytes
    char *block          # on a line, with a line of room in front


cdef void sink_close(sink *s) noexcept nogil:
    memcpy(s.next - s.waiting, s.block - s.waiting, s.waiting)
    s.waiting = 0


cdef void sink_open(sink *s, char *dst) noexcept nogil:
    """Get ready for a block at `dst`."""
    if s.next != dst:
        if s.waiting:
            sink_close(s)
        s.next = dst


cdef void sink_write(sink *s, ptrdiff_t size) noexcept nogil:
    """Store the block of `size` bytes. Partial lines are stored only where a run of blocks begins or ends: two of them
    in 512 bytes to 4 KiB were measured to halve the speed."""
    cdef char *data = s.block - s.waiting
    cdef char *dst = s.next - s.waiting
    cdef ptrdiff_t head
    size += s.waiting
    if s.waiting == 0:
        head = min(<ptrdiff_t> (-<uintptr_t> dst & (LINE - 1)), size)
        memcpy(dst, data, head)
        dst += head
        data += head
        size -= head
    chosen.stream(dst, data, size // LINE)
    s.next = dst + size
    s.waiting = size % LINE
    memmove(s.block - s.waiting, data + (size - s.waiting), s.waiting)  # a short block goes on from itself


cdef inline ptrdiff_t odd_lines(ptrdiff_t size) noexcept nogil:
    """Bytes from row to row in scratch: an odd number of lines, so that rows fall into different sets of the cache."""
    return ((size + LINE - 1) // LINE | 1) * LINE


# What a call works on, and where it is: offsets into output and input in bytes, into the factors in floats.
cdef struct job:
    const lp_group *groups
    char *dst
    const char *src
    const float *scale  # NULL: numbers are only converted
    const float *bias


cdef struct place:
    ptrdiff_t dst, src, factor


cdef inline place moved(place at, const lp_loop *loop, ptrdiff_t n) noexcept nogil:
    at.dst += n * loop.dst_stride
    at.src += n * loop.src_stride
    at.factor += n * loop.factor_stride
    return at


cdef inline place within(const lp_panel *p, const lp_box *box, place at, ptrdiff_t r, ptrdiff_t c) noexcept nogil:
    """Where word (r, c) of a panel is."""
    at.dst += r * p.dst_rs + c * p.dst_cs
    at.src += r * p.src_rs + c * p.src_cs
    at.factor += r * box.factor_rs + c * box.factor_cs
    return at


cdef void pad(char *dst, const lp_panel *p) noexcept nogil:
    """What a panel has no source for, right of the valid columns and below the valid rows."""
    cdef lp_panel q = p[0]
    q.planes, q.valid_rows, q.valid_cols = 1, 0, 0
    if p.valid_cols < p.cols and p.valid_rows:
        q.rows, q.cols = p.valid_rows, p.cols - p.valid_cols
        chosen.copy(dst + p.valid_cols * p.dst_cs, dst, &q)
    if p.valid_rows < p.rows:
        q.rows, q.cols = p.rows - p.valid_rows, p.cols
        chosen.copy(dst + p.valid_rows * p.dst_rs, dst, &q)


cdef bint convert_in_registers(
    const lp_box *box, const lp_lines *lines, const lp_panel *tile, char *dst, const char *src
) noexcept nogil:
    """Convert and move a tile in one step: whether there is a kernel for it, and it is done."""
    cdef lp_panel p = tile[0]
    cdef lp_factors factors
    factors.scale, factors.bias, factors.rs, factors.cs = lines.scale, lines.bias, box.factor_rs, box.factor_cs
    if not box.fused(dst, src, &p, &factors):
        return False
    if p.valid_rows < p.rows:
        p.valid_cols = p.cols
        pad(dst, &p)
    return True


cdef void convert_tile(const lp_box *box, const job *j, lp_panel *tile, char *dst, place at) noexcept nogil:
    """One tile whose numbers are converted: in one step if possible, else line by line, before it is moved, after that,
    or instead."""
    cdef char scratch[LINE + NUMBERS]
    cdef char *near = <char *> ((<uintptr_t> scratch + LINE - 1) & ~<uintptr_t> (LINE - 1))
    cdef char *raw
    cdef const char *src = j.src + at.src
    cdef lp_panel p = tile[0]
    cdef lp_panel q
    cdef lp_lines lines
    lines.scale = lines.bias = NULL
    lines.factor_ls, lines.factor_es = box.factor_rs, box.factor_cs
    if j.scale != NULL:
        lines.scale, lines.bias = j.scale + at.factor, j.bias + at.factor
    if box.fused != NULL and convert_in_registers(box, &lines, tile, dst, src):
        return
    q.planes, q.src_ps, q.dst_ps, q.width, q.fill, q.ahead = 1, 0, 0, box.src_width, p.fill, 0
    if box.converts == ALONE or box.converts == AFTER:
        lines.lines, lines.n, lines.dst_ls = p.valid_rows, p.valid_cols, p.dst_rs
        lines.src_ls = p.src_rs
        if box.converts == AFTER:
            q.rows = q.valid_rows = p.valid_rows
            q.cols = q.valid_cols = p.valid_cols
            q.src_rs, q.src_cs, q.dst_rs, q.dst_cs = p.src_rs, p.src_cs, p.valid_cols * box.src_width, box.src_width
            box.kernel(near, src, &q)
            src, lines.src_ls = near, q.dst_rs
        box.convert(dst, src, &lines)
        if p.valid_rows < p.rows or p.valid_cols < p.cols:
            pad(dst, &p)
        return
    lines.lines, lines.n, lines.src_ls = p.valid_rows, p.valid_cols, p.src_rs
    q.src_cs = p.src_cs
    if box.by_row:
        lines.lines, lines.n, lines.src_ls = p.valid_cols, p.valid_rows, p.src_cs
        lines.factor_ls, lines.factor_es = box.factor_cs, box.factor_rs
        q.src_cs = p.src_rs
    lines.dst_ls = lines.n * p.width
    if lines.dst_ls >= LINE:
        lines.dst_ls = odd_lines(lines.dst_ls)
    if q.src_cs != box.src_width:  # no neighbours in the input: they become so first
        raw = near + lines.lines * lines.dst_ls
        q.rows = q.valid_rows = lines.lines
        q.cols = q.valid_cols = lines.n
        q.src_rs, q.dst_rs, q.dst_cs = lines.src_ls, lines.n * box.src_width, box.src_width
        box.line(raw, src, &q)
        src, lines.src_ls = raw, q.dst_rs
    box.convert(near, src, &lines)
    p.src_rs, p.src_cs = lines.dst_ls, p.width
    if box.by_row:
        p.src_rs, p.src_cs = p.width, lines.dst_ls
    box.kernel(dst, near, &p)


cdef void run_tile(
    const lp_box *box, const job *j, lp_panel *p, ptrdiff_t live_rows, ptrdiff_t live_cols, char *dst, place at
) noexcept nogil:
    """One tile of a panel, of p.rows by p.cols, to `dst`. Where nothing is valid, no pointer to a source is formed."""
    p.valid_rows = clip(live_rows, p.rows)
    p.valid_cols = clip(live_cols, p.cols)
    if p.valid_rows == 0 or p.valid_cols == 0:
        p.valid_rows = 0
        if box.converts == AFTER:  # whose kernel moves words of another size
            chosen.copy(dst, j.src, p)
        else:
            box.kernel(dst, j.src, p)
    elif box.convert == NULL:
        box.kernel(dst, j.src + at.src, p)
    else:
        convert_tile(box, j, p, dst, at)


cdef void stream_run(
    const lp_box *box, const job *j, sink *out, lp_panel *p, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t live_rows,
    ptrdiff_t live_cols, place at
) noexcept nogil:
    """A panel whose rows lie side by side: blocks of some rows, made in scratch, go on where the last one ended."""
    cdef ptrdiff_t r = 0, c, size
    cdef place here
    p.planes = 1
    while r < rows:
        p.rows = min(box.scratch_rows, rows - r)
        size = p.rows * box.src_width  # of each column of the source
        sink_open(out, j.dst + (at.dst + r * p.dst_rs))
        c = 0
        while c < cols:
            p.cols = min(box.scratch_cols, cols - c)
            here = within(p, box, at, r, c)
            if box.ahead and r * box.src_width + box.ahead < live_rows * box.src_width:
                lp_prefetch(j.src + here.src + box.ahead, p.src_cs, clip(live_cols - c, p.cols), size)
            run_tile(box, j, p, live_rows - r, live_cols - c, out.block + c * p.dst_cs, here)
            c += box.scratch_cols
        sink_write(out, p.rows * p.dst_rs)
        r += box.scratch_rows


cdef bint stream_pixels(
    const lp_box *box, const job *j, sink *out, lp_panel *p, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t live_cols,
    place at
) noexcept nogil:
    """A panel of pixels without scratch, where the kernels can: whether that is done."""
    p.planes, p.rows, p.cols = 1, rows, cols
    p.valid_rows, p.valid_cols = rows, live_cols
    if not box.pixels(j.dst + at.dst, j.src + at.src, p):
        return False
    if out.waiting:
        sink_close(out)
    out.next = NULL
    return True


cdef void flush_segment(char *dst, const char *data, ptrdiff_t size) noexcept nogil:
    """Store one piece of a row: whole lines past the caches, the ends as they are."""
    cdef ptrdiff_t head = min(<ptrdiff_t> (-<uintptr_t> dst & (LINE - 1)), size)
    cdef ptrdiff_t lines = (size - head) // LINE
    if head:
        memcpy(dst, data, head)
    chosen.stream(dst + head, data + head, lines)
    head += lines * LINE
    if head < size:
        memcpy(dst + head, data + head, size - head)


cdef void stream_rows(
    const lp_box *box, const job *j, sink *out, lp_panel *p, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t live_rows,
    ptrdiff_t live_cols, place at
) noexcept nogil:
    """A panel of long rows: segments of some rows are made in scratch, then stored row by row."""
    cdef ptrdiff_t pitch = p.dst_rs, r = 0, c, i, done, size, lead = 0, before, segment
    cdef ptrdiff_t head = -(<uintptr_t> j.dst + at.dst) & (LINE - 1)
    cdef place here
    cdef char *row
    cdef char *start
    cdef char *end
    if out.waiting:
        sink_close(out)
    out.next = NULL
    p.planes = 1
    # Where lines begin at the same column of every row, the first segment ends there. Where they do not, segments
    # overlap by a line, and each row is cut at a line of its own.
    if pitch % LINE or head % p.width:
        head, lead = 0, LINE // p.width
    head //= p.width
    p.dst_rs = (box.col_tile + lead) * p.width + LINE  # odd in lines: rows fall into different sets of the cache
    while r < rows:
        p.rows = min(box.scratch_rows, rows - r)
        c = 0
        while c < cols:
            before = min(lead, c)
            segment = min(head if c == 0 and head else box.col_tile, cols - c)
            done = -before
            while done < segment:
                p.cols = min(box.scratch_cols, segment - done)
                here = within(p, box, at, r, c + done)
                if box.ahead and c + done + box.scratch_cols < live_cols:
                    lp_prefetch(j.src + here.src + box.ahead, p.src_cs, p.cols, p.rows * box.src_width)
                run_tile(box, j, p, live_rows - r, live_cols - c - done, out.block + (before + done) * p.width, here)
                done += p.cols
            for i in range(p.rows):
                row = j.dst + (at.dst + (r + i) * pitch + c * p.width)
                start, end = row, row + segment * p.width
                if lead and c:
                    start -= <uintptr_t> start & (LINE - 1)
                if lead and c + segment < cols:
                    end -= <uintptr_t> end & (LINE - 1)
                size = before * p.width - (row - start)
                flush_segment(start, out.block + i * p.dst_rs + size, end - start)
            c += segment
        r += box.scratch_rows


cdef void stream_copy(
    const lp_box *box, sink *out, lp_panel *p, ptrdiff_t rows, ptrdiff_t planes, char *dst, const char *src
) noexcept nogil:
    """A panel of short rows that lie side by side: each plane is a run, and all planes may be one."""
    cdef ptrdiff_t r = 0, k = 0, step
    if rows <= RUNS and p.dst_ps == rows * p.dst_rs and <uintptr_t> dst & (p.dst_rs - 1):
        # Where lines begin inside rows, one run of few sources through scratch is faster: 1.3 to 1.7 of memcpy, not
        # 1.0 to 1.3; from more than 16 sources at a time it would be slower.
        p.rows = p.valid_rows = rows
        step = max(RUN // p.dst_ps, 1)
        while k < planes:
            p.planes = min(step, planes - k)
            sink_open(out, dst + k * p.dst_ps)
            if box.ahead:
                lp_prefetch(src + k * p.src_ps + box.ahead, p.src_rs, rows, p.planes * p.src_ps)
            chosen.copy(out.block, src + k * p.src_ps, p)
            sink_write(out, p.planes * p.dst_ps)
            k += step
        return
    p.planes = planes
    while r < rows:
        p.rows = p.valid_rows = min(box.scratch_rows, rows - r)
        p.before, p.after = r, rows - r - p.rows
        box.kernel(dst + r * p.dst_rs, src + r * p.src_rs, p)
        r += p.rows


cdef void tile_by_scratch(
    const lp_box *box, lp_panel *tile, char *near, char *far, char *dst, const char *src
) noexcept nogil:
    """One tile whose source lines are brought together in `near` first, or whose output lines are made in `far`."""
    cdef lp_panel p = tile[0]
    cdef lp_panel q
    cdef ptrdiff_t i
    q.planes, q.width, q.fill = 1, 1, p.fill
    q.src_ps = q.dst_ps = 0
    q.src_cs = q.dst_cs = 1
    if box.gather:
        q.rows = q.valid_rows = p.cols
        q.cols = q.valid_cols = p.rows * p.width
        q.src_rs, q.dst_rs = p.src_cs, odd_lines(q.cols) if q.cols >= 16 else q.cols
        if p.src_rs == p.width:
            chosen.copy(near, src, &q)
        else:  # rows become neighbours on the way
            q.cols = q.valid_cols = p.rows
            q.width, q.src_cs, q.dst_cs = p.width, p.src_rs, p.width
            box.line(near, src, &q)
            q.width = q.src_cs = q.dst_cs = 1
        p.src_rs, p.src_cs = p.width, q.dst_rs
        src = near
    if not box.scatter:
        box.kernel(dst, src, &p)
        return
    q.rows = q.valid_rows = p.rows
    q.cols = q.valid_cols = p.planes * p.cols * p.width  # planes, where there are several, lie side by side
    q.src_rs, q.dst_rs = odd_lines(q.cols), p.dst_rs
    p.dst_rs = q.src_rs
    box.kernel(far, src, &p)
    if box.streams:
        for i in range(q.rows):
            flush_segment(dst + i * q.dst_rs, far + i * q.src_rs, q.cols)
    else:
        chosen.copy(dst, far, &q)


cdef void run_by_scratch(
    const lp_box *box, char *scratch, lp_panel *p, ptrdiff_t planes, ptrdiff_t rows, ptrdiff_t cols, char *dst,
    const char *src
) noexcept nogil:
    """A panel without padding, tile by tile through scratch on one side or both."""
    cdef ptrdiff_t k = 0, r, c
    while k < planes:
        p.planes = min(max(box.plane_tile, <ptrdiff_t> 1), planes - k)
        r = 0
        while r < rows:
            p.rows = p.valid_rows = min(box.row_tile, rows - r)
            c = 0
            while c < cols:
                p.cols = p.valid_cols = min(box.col_tile, cols - c)
                p.ahead = box.ahead
                tile_by_scratch(box, p, scratch, scratch + SCRATCH // 2,
                                dst + (k * p.dst_ps + r * p.dst_rs + c * p.dst_cs),
                                src + (k * p.src_ps + r * p.src_rs + c * p.src_cs))
                c += box.col_tile
            r += box.row_tile
        k += p.planes


cdef void run_panel(
    const lp_box *box, const job *j, sink *out, const ptrdiff_t *extents, int shared, bint dead, ptrdiff_t planes,
    place at
) noexcept nogil:
    """One panel, tile by tile: so many rows and columns at once that both sides stay in the first cache."""
    cdef const lp_loop *plane
    cdef const lp_loop *row
    cdef const lp_loop *col
    cdef ptrdiff_t rows = 1, cols = 1, live_planes = 1, live_rows = 1, live_cols = 1, r = 0, c
    cdef lp_panel p
    cdef place here
    p.width = box.width
    p.fill = box.fill
    p.src_ps = p.src_rs = p.src_cs = p.dst_ps = p.dst_rs = p.dst_cs = p.ahead = 0
    if box.col >= 0:
        col = &box.loops[box.col]
        cols = extents[box.col] if box.col < shared else col.extent
        live_cols = cols if box.col < shared else col.valid
        p.src_cs, p.dst_cs = col.src_stride, col.dst_stride
    if box.row >= 0:
        row = &box.loops[box.row]
        rows = extents[box.row] if box.row < shared else row.extent
        live_rows = rows if box.row < shared else row.valid
        p.src_rs, p.dst_rs = row.src_stride, row.dst_stride
    if box.plane >= 0:
        plane = &box.loops[box.plane]
        live_planes = planes if box.plane < shared or box.plane_tile else plane.valid
        p.src_ps, p.dst_ps = plane.src_stride, plane.dst_stride
    if dead:
        live_planes = 0
    if (box.gather or box.scatter) and live_planes == planes and live_rows == rows and live_cols == cols:
        run_by_scratch(box, out.block, &p, planes, rows, cols, j.dst + at.dst, j.src + at.src)
        return
    if box.scratch_rows and not box.scratch_cols:
        p.cols = p.valid_cols = cols
        stream_copy(box, out, &p, rows, planes, j.dst + at.dst, j.src + at.src)
        return
    if box.scratch_rows:
        if not live_planes:
            live_rows = 0
        if box.pixels != NULL and live_rows == rows and stream_pixels(box, j, out, &p, rows, cols, live_cols, at):
            return
        if box.scratch_run and p.dst_rs == cols * p.width:
            stream_run(box, j, out, &p, rows, cols, live_rows, live_cols, at)
            return
        if not box.scratch_run:
            stream_rows(box, j, out, &p, rows, cols, live_rows, live_cols, at)
            return
    while r < rows:
        p.rows = min(box.row_tile, rows - r)
        c = 0
        while c < cols:
            p.cols = min(box.col_tile, cols - c)
            here = within(&p, box, at, r, c)
            if box.by_row and box.fused == NULL and r + box.row_tile < rows:
                lp_prefetch(j.src + here.src + p.rows * p.src_rs, p.src_cs, p.cols, p.rows * box.src_width)
            # Planes of nothing but padding have no source.
            if live_planes:
                p.planes = live_planes
                run_tile(box, j, &p, live_rows - r, live_cols - c, j.dst + here.dst, here)
            if live_planes < planes:
                here.dst += live_planes * p.dst_ps
                p.planes = planes - live_planes
                run_tile(box, j, &p, 0, 0, j.dst + here.dst, here)
            c += box.col_tile
        r += box.row_tile


cdef void run_box(
    const lp_box *box, const job *j, sink *out, const ptrdiff_t *extents, int shared, place at
) noexcept nogil:
    """All panels of a box. `extents` are those of the shared loops in this chunk."""
    cdef ptrdiff_t planes = 1, k = 0
    at.dst += box.dst_offset
    at.src += box.src_offset
    at.factor += box.factor_offset
    if box.plane >= 0:
        planes = extents[box.plane] if box.plane < shared else box.loops[box.plane].extent
    if not box.plane_tile:
        run_nest(box, j, out, extents, shared, planes, at)
        return
    while k < planes:
        run_nest(box, j, out, extents, shared, min(box.plane_tile, planes - k), moved(at, &box.loops[box.plane], k))
        k += box.plane_tile


cdef void run_nest(
    const lp_box *box, const job *j, sink *out, const ptrdiff_t *extents, int shared, ptrdiff_t planes, place at
) noexcept nogil:
    """The loops around the panels of a box."""
    cdef ptrdiff_t index[LP_MAX_LOOPS]
    cdef ptrdiff_t extent[LP_MAX_LOOPS]
    cdef ptrdiff_t valid[LP_MAX_LOOPS]
    cdef const lp_loop *loop
    cdef int k, dead = 0, inner = box.n_nest - 1
    for k in range(box.n_nest):
        index[k] = 0
        loop = &box.loops[box.nest[k]]
        extent[k] = extents[box.nest[k]] if box.nest[k] < shared else loop.extent
        valid[k] = extent[k] if box.nest[k] < shared else loop.valid
        dead += valid[k] == 0
    while True:
        run_panel(box, j, out, extents, shared, dead > 0, planes, at)
        k = inner
        while k >= 0:
            loop = &box.loops[box.nest[k]]
            index[k] += 1
            if index[k] < extent[k]:
                at = moved(at, loop, 1)
                dead += index[k] == valid[k]  # from here on this loop has no source
                break
            at = moved(at, loop, 1 - extent[k])
            dead -= 0 < valid[k] < extent[k]
            index[k] = 0
            k -= 1
        if k < 0:
            return


cdef void run_chunk(void *argument, ptrdiff_t chunk) noexcept nogil:
    """One chunk of a job: a range of the shared loops of one group, with all its boxes."""
    cdef const job *j = <const job *> argument
    cdef const lp_group *group = j.groups
    cdef ptrdiff_t extents[LP_MAX_LOOPS]
    cdef ptrdiff_t count, first
    cdef place at
    cdef int k
    cdef char scratch[LINE + LINE + SCRATCH]
    cdef sink out
    out.next, out.waiting = NULL, 0
    out.block = <char *> ((<uintptr_t> scratch + 2 * LINE - 1) & ~<uintptr_t> (LINE - 1))
    while chunk >= group.chunks:
        chunk -= group.chunks
        group += 1
    at.dst, at.src, at.factor = group.dst_offset, group.src_offset, group.factor_offset
    for k in range(group.n_loops - 1, -1, -1):
        count = (group.loops[k].extent + group.steps[k] - 1) // group.steps[k]
        first = chunk % count * group.steps[k]
        chunk //= count
        extents[k] = min(group.steps[k], group.loops[k].extent - first)
        at = moved(at, &group.loops[k], first)
    for k in range(group.n_boxes):
        run_box(&group.boxes[k], j, &out, extents, group.n_loops, at)
    if group.streams:
        if out.waiting:
            sink_close(&out)
        chosen.fence()


# ---- threads ------------------------------------------------------------------------------------------------------

cdef void team(lp_crew *crew, int first, int count) noexcept nogil:
    """Threads for the crew's helpers, from OpenMP: the loop is entered once for each helper and stays open."""
    cdef int i
    for i in prange(count, num_threads=count, schedule="static", chunksize=1):
        lp_serve(crew, first + i)


cdef void run_region(lp_task task, void *argument, ptrdiff_t chunks, int threads) noexcept nogil:
    """An ordinary parallel loop, for systems without the crew."""
    cdef ptrdiff_t k
    for k in prange(chunks, num_threads=threads, schedule="dynamic", chunksize=1):
        task(argument, k)


cdef int check_signals() except -1 with gil:
    return PyErr_CheckSignals()


cdef int run(lp_task task, void *argument, ptrdiff_t chunks, int threads, bint interruptible) except -1 nogil:
    """Run task(argument, k) for every chunk k: the only door to threads. A signal handler's exception ends it early."""
    cdef lp_check check = check_signals
    if not interruptible:
        check = NULL
    if threads > 1 and omp_in_parallel():
        threads = 1
    if threads > 1 and not LP_HAS_CREW:
        run_region(task, argument, chunks, <int> min(<ptrdiff_t> threads, chunks))
        return 0
    return lp_run(task, argument, chunks, threads, check)


if lp_openmp:
    lp_set_team(team)


def openmp_max_threads():
    """The thread count that the caller's OpenMP settings allow at this moment."""
    return omp_get_max_threads()


def environment(bytes name):
    """A variable of the environment as text, as it is now: os.environ costs twenty times as much."""
    cdef const char *text = getenv(name)
    return "" if text == NULL else text.decode(errors="replace")


# ---- programs -----------------------------------------------------------------------------------------------------

NUMBER_TYPES = ("float32", "float16", "bfloat16", "uint8", "int8", "uint16", "int16")
"""Names of the types that are converted, as LP_FLOAT32 and so on count them; the results are the first three."""


cdef const float *floats(cnp.ndarray a) except NULL:
    if cnp.PyArray_TYPE(a) != cnp.NPY_FLOAT32 or not cnp.PyArray_IS_C_CONTIGUOUS(a):
        raise TypeError("factors must be contiguous arrays of float32")
    return <const float *> cnp.PyArray_DATA(a)


@cython.final
cdef class Program:
    """A plan bound to strides, in the engine's own structures.

    Parameters
    ----------
    groups : sequence of layoutpack._plan.Group
        What to move.
    fill : bytes
        One element of padding.
    isa : str, optional
        Instruction set of the kernels; the chosen one if left out. For comparisons.
    cast : layoutpack._tiles.Cast, optional
        The numbers that the elements are and become.
    """

    cdef lp_group *groups
    cdef int n_groups
    cdef readonly ptrdiff_t chunks
    cdef const lp_kernels *kernels
    cdef list blocks  # of memory, kept until the program dies

    def __cinit__(self, groups, bytes fill, str isa="", cast=None):
        self.kernels = find_kernels(isa) if isa else chosen
        self.blocks = []
        self.n_groups = len(groups)
        self.groups = <lp_group *> self.allocate(self.n_groups * sizeof(lp_group))
        for i, group in enumerate(groups):
            self.add_group(&self.groups[i], group, fill, cast)

    cdef void *allocate(self, size_t size) except NULL:
        block = bytearray(size + 1)
        self.blocks.append(block)
        return <void *> <char *> block

    cdef int add_loops(self, lp_loop *loops, source) except -1:
        cdef int i
        for i, (extent, valid, src, dst, factor) in enumerate(source):
            loops[i].extent, loops[i].valid, loops[i].src_stride, loops[i].dst_stride = extent, valid, src, dst
            loops[i].factor_stride = factor
        return 0

    cdef int add_group(self, lp_group *group, source, bytes fill, cast) except -1:
        cdef int i, n = len(source.loops)
        cdef lp_loop *loops = <lp_loop *> self.allocate(n * sizeof(lp_loop))
        cdef ptrdiff_t *steps = <ptrdiff_t *> self.allocate(n * sizeof(ptrdiff_t))
        cdef lp_box *boxes = <lp_box *> self.allocate(len(source.boxes) * sizeof(lp_box))
        self.add_loops(loops, source.loops)
        for i in range(n):
            steps[i] = source.steps[i]
        for i, box in enumerate(source.boxes):
            self.add_box(&boxes[i], box, source.loops, fill, cast)
        group.src_offset, group.dst_offset = source.src_offset, source.dst_offset
        group.factor_offset = source.factor_offset
        group.loops, group.steps, group.n_loops = loops, steps, n
        group.boxes, group.n_boxes = boxes, len(source.boxes)
        group.streams = any(box.tiling.streams for box in source.boxes)
        group.chunks = source.chunks
        self.chunks += group.chunks
        return 0

    cdef int add_box(self, lp_box *box, source, shared, bytes fill, cast) except -1:
        cdef int i, log2, n_nest = len(source.panel.nest)
        cdef ptrdiff_t width = source.width, ready = 0, room = max(width, <ptrdiff_t> LP_FILL_BYTES)
        panel, tiling = source.panel, source.tiling
        all_loops = (*shared, *source.loops)
        cdef lp_loop *loops = <lp_loop *> self.allocate(len(all_loops) * sizeof(lp_loop))
        cdef int *nest = <int *> self.allocate(n_nest * sizeof(int))
        cdef char *pattern = <char *> self.allocate(room)
        if len(all_loops) > LP_MAX_LOOPS:
            raise ValueError(f"a conversion needs {len(all_loops)} loops, the engine has {LP_MAX_LOOPS}")
        self.add_loops(loops, all_loops)
        for i in range(n_nest):
            nest[i] = panel.nest[i]
        while ready < room:
            memcpy(pattern + ready, <const char *> fill, min(<ptrdiff_t> len(fill), room - ready))
            ready += len(fill)
        box.src_offset, box.dst_offset = source.src_offset, source.dst_offset
        box.factor_offset = source.factor_offset
        box.loops, box.nest, box.n_nest = loops, nest, n_nest
        box.plane, box.row, box.col = panel.plane, panel.row, panel.col
        box.width, box.fill = width, pattern
        box.row_tile, box.col_tile, box.plane_tile = tiling.row_tile, tiling.col_tile, tiling.plane_tile
        box.streams, box.ahead = tiling.streams, tiling.ahead
        box.scratch_rows, box.scratch_run = tiling.scratch_rows, tiling.scratch_run
        box.scratch_cols = tiling.scratch_cols
        box.gather, box.scatter = tiling.gather, tiling.scatter
        box.converts, box.by_row, box.src_width = 0, tiling.by_row, width
        box.convert, box.fused, box.pixels = NULL, NULL, NULL
        if cast is not None:
            box.converts = ("", "before", "after", "alone").index(tiling.converts)
            box.src_width = cast.src_width
            number, result = NUMBER_TYPES.index(cast.src), NUMBER_TYPES.index(cast.dst)
            box.convert = self.kernels.convert[number][result]
            if tiling.converts != "alone" and self.kernels.fused != NULL:
                box.fused = self.kernels.fused[number][result]
            box.factor_rs = loops[panel.row].factor_stride if panel.row >= 0 else 0
            box.factor_cs = loops[panel.col].factor_stride if panel.col >= 0 else 0
            box.line = self.kernels.strided[(<int> cast.src_width).bit_length() - 1]
            if tiling.converts == "after":
                width = cast.src_width
        self.check_scratch(box)
        log2 = width.bit_length() - 1 if width in (1, 2, 4, 8, 16) else LP_WORDS
        if panel.kernel == "copy":
            box.kernel = self.kernels.copy_run if tiling.streams and cast is None else self.kernels.copy
        elif cast is not None:
            box.kernel = self.kernels.transpose[log2] if panel.kernel == "transpose" else self.kernels.strided[log2]
        elif log2 == LP_WORDS:
            box.kernel = self.kernels.strided_any
        elif panel.kernel == "transpose":
            box.kernel, box.line = self.kernels.transpose[log2], self.kernels.strided[log2]
            if tiling.scratch_rows and self.kernels.pixels_run != NULL:
                box.pixels = self.kernels.pixels_run[log2]
        else:
            box.kernel = self.kernels.strided[log2]
        return 0

    cdef int check_scratch(self, const lp_box *box) except -1:
        """A tiling that does not fit the scratch is an error of the planner, found before anything runs."""
        cdef ptrdiff_t planes = max(box.plane_tile, <ptrdiff_t> 1), needed = 0
        if box.scratch_cols:
            needed = box.scratch_rows * (box.col_tile * box.width + 2 * LINE)
            if box.scratch_run:
                needed = box.scratch_rows * box.loops[box.row].dst_stride
        if box.gather:
            needed = box.row_tile * box.width
            needed = 2 * box.col_tile * (odd_lines(needed) if needed >= 16 else needed)
        if box.scatter:
            needed = max(needed, 2 * odd_lines(planes * box.col_tile * box.width) * box.row_tile)
        if box.converts:
            self.check_numbers(box)
        if needed > SCRATCH:
            raise ValueError(f"a tile needs {needed} bytes of scratch, there are {<ptrdiff_t> SCRATCH}")
        return 0

    cdef int check_numbers(self, const lp_box *box) except -1:
        """The same for the numbers of a tile, before they are converted and after."""
        cdef ptrdiff_t rows = 1, cols = 1, line, needed
        if box.row >= 0:
            rows = min(box.loops[box.row].valid, box.scratch_rows if box.scratch_rows else box.row_tile)
        if box.col >= 0:
            cols = min(box.loops[box.col].valid, box.scratch_cols if box.scratch_cols else box.col_tile)
        needed = rows * cols * box.src_width
        if box.converts == BEFORE:
            line = (rows if box.by_row else cols) * box.width
            needed += (cols if box.by_row else rows) * (odd_lines(line) if line >= LINE else line)
        if box.converts != ALONE and needed > NUMBERS:
            raise ValueError(f"the numbers of a tile need {needed} bytes, there are {<ptrdiff_t> NUMBERS}")
        return 0

    def run(self, cnp.ndarray dst not None, cnp.ndarray src not None, int threads, factors=None):
        """Fill `dst` from `src`. Their shapes, strides and item size are those the program was made for, and so are the
        lengths of the `factors`, scale and bias."""
        cdef job j
        self.fill_job(&j, <char *> cnp.PyArray_DATA(dst), src, factors)
        cdef bint interruptible = self.chunks > 1 and on_main_thread()
        with nogil:
            run(run_chunk, &j, self.chunks, threads, interruptible)

    cdef int fill_job(self, job *j, char *dst, cnp.ndarray src, factors) except -1:
        j.groups, j.dst, j.src = self.groups, dst, <const char *> cnp.PyArray_DATA(src)
        j.scale = j.bias = NULL
        if factors is not None:
            j.scale, j.bias = floats(factors[0]), floats(factors[1])
        return 0


cdef bint on_main_thread():
    return threading.get_ident() == threading.main_thread().ident


# Several jobs as one: `ends` are the chunks up to the end of each.
cdef struct jobs:
    const job *items
    const ptrdiff_t *ends
    ptrdiff_t count


cdef void run_chunk_of_many(void *argument, ptrdiff_t chunk) noexcept nogil:
    cdef const jobs *many = <const jobs *> argument
    cdef ptrdiff_t low = 0, high = many.count - 1, middle
    while low < high:
        middle = (low + high) // 2
        if many.ends[middle] > chunk:
            high = middle
        else:
            low = middle + 1
    run_chunk(<void *> &many.items[low], chunk - (many.ends[low - 1] if low else 0))


def run_many(list programs not None, cnp.ndarray dst not None, ptrdiff_t step, list sources not None, int threads,
             factors=None):
    """Run a program for each of the sources; the outputs begin every `step` bytes from the first of `dst` on."""
    cdef ptrdiff_t i, chunks = 0
    cdef Program program
    cdef jobs many
    cdef bytearray items = bytearray((len(sources) + 1) * sizeof(job))
    cdef bytearray ends = bytearray((len(sources) + 1) * sizeof(ptrdiff_t))
    cdef job *item = <job *> <char *> items
    cdef ptrdiff_t *end = <ptrdiff_t *> <char *> ends
    for i in range(len(sources)):
        program = programs[i]
        program.fill_job(&item[i], <char *> cnp.PyArray_DATA(dst) + i * step, sources[i], factors)
        chunks += program.chunks
        end[i] = chunks
    many.items, many.ends, many.count = item, end, len(sources)
    cdef bint interruptible = chunks > 1 and on_main_thread()
    with nogil:
        run(run_chunk_of_many, &many, chunks, threads, interruptible)
