/* libFuzzer target: a string of bytes becomes a panel, and every kernel of every instruction set that can convert it
 * has to do what a naive loop does, on buffers of exactly the size they need.
 *
 * The contract is include/layoutpack/kernels.h. Address sanitizer holds the kernels to it: in the source, all but the
 * words and the 15 bytes behind them is poisoned; in the output, bytes between the words are compared. */
#include "layoutpack/kernels.h"

#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xa5, LINE = 64, OVERREAD = 15, MAX_BYTES = 1 << 15 };

/* ---- numbers out of the input ------------------------------------------------------------------------------------ */

static const uint8_t *next, *end;

static ptrdiff_t byte(void) { return next < end ? *next++ : 0; }

/* Mostly short, at times longer than any block of a kernel. */
static ptrdiff_t extent(void) {
    ptrdiff_t n = byte();
    return n < 240 ? 1 + n % 80 : 1 + (n - 240) * 64 + byte() % 64;
}

/* How much of an extent is valid: mostly all. */
static ptrdiff_t part(ptrdiff_t n) {
    ptrdiff_t cut = byte();
    return cut < 128 || cut - 128 > n ? n : n - (cut - 128);
}

/* A stride of the input, where `tight` leaves no gap. */
static ptrdiff_t stride(ptrdiff_t tight) {
    ptrdiff_t kind = byte();
    if (kind < 96) return tight;
    if (kind < 128) return -tight;
    if (kind < 160) return 2 * tight;
    if (kind < 208) return tight + byte();
    if (kind < 216) return 0;
    ptrdiff_t high = byte() - 128;
    return high * 256 + byte();
}

/* ---- panels ------------------------------------------------------------------------------------------------------ */

/* The lowest byte that an array of three strides reaches, and how many there are. */
struct span {
    ptrdiff_t low, size;
};

static struct span span(const ptrdiff_t n[3], const ptrdiff_t strides[3], ptrdiff_t width) {
    struct span s = {0, width};
    for (int i = 0; i < 3; i++) {
        ptrdiff_t reach = (n[i] - 1) * strides[i];
        if (n[i] == 0) return (struct span){0, 0};
        s.low += reach < 0 ? reach : 0;
        s.size += reach < 0 ? -reach : reach;
    }
    return s;
}

/* `size` bytes that begin `offset` bytes past a line, with nothing behind them. */
static char *allocate(ptrdiff_t size, ptrdiff_t offset, void **memory) {
    if (posix_memalign(memory, LINE, (size_t)(offset + size + (offset + size == 0)))) abort();
    memset(*memory, CANARY, (size_t)(offset + size));
    return (char *)*memory + offset;
}

static void complain(const char *isa, const char *kernel, const lp_panel *p) {
    fprintf(stderr, "%s %s: planes %td rows %td/%td cols %td/%td width %td src %td %td %td dst %td %td %td\n", isa,
            kernel, p->planes, p->valid_rows, p->rows, p->valid_cols, p->cols, p->width, p->src_ps, p->src_rs,
            p->src_cs, p->dst_ps, p->dst_rs, p->dst_cs);
    abort();
}

static void naive(char *dst, const char *src, const lp_panel *p) {
    for (ptrdiff_t k = 0; k < p->planes; k++)
        for (ptrdiff_t r = 0; r < p->rows; r++)
            for (ptrdiff_t c = 0; c < p->cols; c++) {
                int valid = r < p->valid_rows && c < p->valid_cols;
                memcpy(dst + k * p->dst_ps + r * p->dst_rs + c * p->dst_cs,
                       valid ? src + k * p->src_ps + r * p->src_rs + c * p->src_cs : p->fill, (size_t)p->width);
            }
}

/* All of the source but its words, and the 15 bytes behind each as far as the last word reaches. */
static void poison_gaps(const char *src, const char *low, ptrdiff_t size, const lp_panel *p) {
    ASAN_POISON_MEMORY_REGION(low, (size_t)size);
    for (ptrdiff_t k = 0; k < p->planes; k++)
        for (ptrdiff_t r = 0; r < p->valid_rows; r++)
            for (ptrdiff_t c = 0; c < p->valid_cols; c++) {
                const char *word = src + k * p->src_ps + r * p->src_rs + c * p->src_cs;
                ptrdiff_t left = low + size - word, readable = p->width + OVERREAD;
                ASAN_UNPOISON_MEMORY_REGION(word, (size_t)(left < readable ? left : readable));
            }
}

/* One panel, by all kernels that can convert it. */
static void convert(const lp_panel *p, ptrdiff_t src_offset, ptrdiff_t dst_offset) {
    const ptrdiff_t words[3] = {p->planes, p->valid_rows, p->valid_cols}, places[3] = {p->planes, p->rows, p->cols};
    const struct span in = span(words, (ptrdiff_t[3]){p->src_ps, p->src_rs, p->src_cs}, p->width);
    const struct span out = span(places, (ptrdiff_t[3]){p->dst_ps, p->dst_rs, p->dst_cs}, p->width);
    if (in.size > MAX_BYTES || out.size > MAX_BYTES) return;
    void *memory[4];
    char *low = allocate(in.size, src_offset, &memory[0]);
    char *expected = allocate(out.size, dst_offset, &memory[1]), *actual = allocate(out.size, dst_offset, &memory[2]);
    allocate(out.size, dst_offset, &memory[3]); /* what is there when a kernel does nothing */
    for (ptrdiff_t i = 0; i < in.size; i++) low[i] = (char)(i * 31 + i / 251);
    naive(expected - out.low, low - in.low, p);
    poison_gaps(low - in.low, low, in.size, p);

    int log2 = 0;
    while (log2 < LP_WORDS && 1 << log2 != p->width) log2++;
    const int transposed = log2 < LP_WORDS && p->src_rs == p->width && p->dst_cs == p->width;
    for (int i = 0; lp_kernels_built(i); i++) {
        const lp_kernels *set = lp_kernels_built(i);
        const struct {
            const char *name;
            lp_panel_fn run;
        } able[] = {
            {"copy", p->src_cs == p->width && p->dst_cs == p->width ? set->copy : NULL},
            {"transpose", transposed ? set->transpose[log2] : NULL},
            {"strided", log2 < LP_WORDS ? set->strided[log2] : NULL},
            {"strided_any", set->strided_any},
        };
        if (!lp_kernels_available(set)) continue;
        for (size_t k = 0; k < sizeof able / sizeof *able; k++) {
            if (!able[k].run) continue;
            memset(memory[2], CANARY, (size_t)(dst_offset + out.size));
            able[k].run(actual - out.low, low - in.low, p);
            if (memcmp(memory[1], memory[2], (size_t)(dst_offset + out.size))) complain(set->isa, able[k].name, p);
        }
        if (!transposed || !set->pixels_run || !set->pixels_run[log2]) continue;
        memset(memory[2], CANARY, (size_t)(dst_offset + out.size));
        int done = set->pixels_run[log2](actual - out.low, low - in.low, p);
        if (memcmp(memory[done ? 1 : 3], memory[2], (size_t)(dst_offset + out.size)))
            complain(set->isa, "pixels_run", p);
    }
    ASAN_UNPOISON_MEMORY_REGION(low, (size_t)in.size);
    for (int i = 0; i < 4; i++) free(memory[i]);
}

enum { COPY, TRANSPOSE, STRIDED, STYLES };

static void any_panel(const char *fill, ptrdiff_t width, ptrdiff_t src_offset, ptrdiff_t dst_offset) {
    const ptrdiff_t style = byte() % STYLES, order = byte(), flips = byte();
    lp_panel p = {.planes = 1 + byte() % 6, .rows = extent(), .cols = extent(), .width = width, .fill = fill};
    p.valid_rows = part(p.rows), p.valid_cols = part(p.cols);

    /* No two words of the output may meet: each stride encloses all that the faster ones reach. */
    ptrdiff_t *const strides[3] = {&p.dst_cs, &p.dst_rs, &p.dst_ps}, n[3] = {p.cols, p.rows, p.planes};
    const int turn = style == STRIDED ? (int)(order % 3) : 0, swap = style != STRIDED ? 0 : order / 3 % 2;
    ptrdiff_t pitch = width;
    for (int i = 0; i < 3; i++) {
        int axis = (turn + (swap ? 3 - i : i)) % 3;
        int fixed = style != STRIDED && axis == 0; /* words side by side */
        if (!fixed && flips & 8) pitch += byte();
        *strides[axis] = !fixed && flips >> axis & 1 ? -pitch : pitch;
        pitch *= n[axis];
    }

    if (style == TRANSPOSE) {
        p.src_rs = width;
        p.src_cs = stride(p.rows * width);
    } else if (style == COPY) {
        p.src_cs = width;
        p.src_rs = stride(p.cols * width);
    } else {
        p.src_cs = stride(width);
        p.src_rs = stride(p.cols * p.src_cs);
    }
    p.src_ps = stride(p.rows * p.cols * width);
    convert(&p, src_offset, dst_offset);
}

/* ---- past the caches --------------------------------------------------------------------------------------------- */

enum { PIECE_BYTES = 4096, PIECE_ROWS = 16 };

/* Runs of short rows, piece by piece, as the engine hands them out: a piece has 16 rows at least, so that the rows
 * before it fill a line, and the kernel's own buffer bounds it. Only the whole has to be right. */
static void runs(const char *fill, ptrdiff_t src_offset, ptrdiff_t dst_offset) {
    const ptrdiff_t row = 16 << byte() % 3, most = PIECE_BYTES / row;
    lp_panel p = {.planes = 1 + byte() % 4, .rows = extent(), .fill = fill, .width = 1, .cols = row, .valid_cols = row};
    p.src_cs = p.dst_cs = 1;
    p.dst_rs = row;
    p.dst_ps = p.rows * row + byte();
    p.src_rs = byte() % 2 ? p.planes * row : stride(row); /* planes that share lines have a kernel of their own */
    p.src_ps = p.src_rs == p.planes * row ? row : stride(p.rows * row);
    p.valid_rows = p.rows;
    const ptrdiff_t piece = PIECE_ROWS + byte() % (most - PIECE_ROWS + 1), n[3] = {p.planes, p.rows, row};
    const struct span in = span(n, (ptrdiff_t[3]){p.src_ps, p.src_rs, 1}, 1);
    const ptrdiff_t size = (p.planes - 1) * p.dst_ps + p.rows * row;
    if (in.size > MAX_BYTES || size > MAX_BYTES) return;
    void *memory[3];
    char *low = allocate(in.size, src_offset, &memory[0]);
    char *expected = allocate(size, dst_offset, &memory[1]), *actual = allocate(size, dst_offset, &memory[2]);
    for (ptrdiff_t i = 0; i < in.size; i++) low[i] = (char)(i * 31 + i / 251);
    naive(expected, low - in.low, &p);
    for (int i = 0; lp_kernels_built(i); i++) {
        const lp_kernels *set = lp_kernels_built(i);
        if (!lp_kernels_available(set)) continue;
        memset(memory[2], CANARY, (size_t)(dst_offset + size));
        for (ptrdiff_t r = 0; r < n[1]; r += piece) {
            lp_panel some = p;
            some.rows = some.valid_rows = piece < n[1] - r ? piece : n[1] - r;
            some.before = r, some.after = n[1] - r - some.rows;
            set->copy_run(actual + r * row, low - in.low + r * p.src_rs, &some);
        }
        set->fence();
        if (memcmp(memory[1], memory[2], (size_t)(dst_offset + size))) complain(set->isa, "copy_run", &p);
    }
    for (int i = 0; i < 3; i++) free(memory[i]);
}

static void lines(ptrdiff_t src_offset) {
    const ptrdiff_t n = byte(), size = n * LINE;
    void *memory[2];
    char *src = allocate(size, src_offset, &memory[0]), *dst = allocate(size, 0, &memory[1]);
    for (ptrdiff_t i = 0; i < size; i++) src[i] = (char)(i * 31 + i / 251);
    for (int i = 0; lp_kernels_built(i); i++) {
        const lp_kernels *set = lp_kernels_built(i);
        if (!lp_kernels_available(set)) continue;
        memset(dst, CANARY, (size_t)size);
        set->stream(dst, src, n);
        set->fence();
        if (memcmp(src, dst, (size_t)size)) complain(set->isa, "stream", &(lp_panel){.rows = n, .width = LINE});
    }
    for (int i = 0; i < 2; i++) free(memory[i]);
}

/* ---- numbers -------------------------------------------------------------------------------------------------------
 */

static const ptrdiff_t number_sizes[LP_NUMBERS] = {4, 2, 2, 1, 1, 2, 2};

/* One number by the portable code. */
static void convert_one(char *dst, const char *src, ptrdiff_t from, ptrdiff_t to, const float *scale,
                        const float *bias) {
    lp_convert_scalar[from][to](dst, src, &(lp_lines){.lines = 1, .n = 1, .scale = scale, .bias = bias});
}

/* Lines of numbers: every instruction set must make the same of each number by itself as the portable code does. */
static void numbers(ptrdiff_t src_offset, ptrdiff_t dst_offset) {
    const ptrdiff_t from = byte() % LP_NUMBERS, to = byte() % LP_RESULTS, factors = byte(), seed = byte();
    lp_lines p = {.lines = 1 + byte() % 40, .n = extent()};
    p.src_ls = p.n * number_sizes[from] + (seed & 1 ? byte() : 0);
    p.dst_ls = p.n * number_sizes[to] + (seed & 2 ? byte() : 0);
    if (factors & 1) p.factor_ls = factors >> 2 & 3, p.factor_es = factors >> 4 & 3;
    const ptrdiff_t in = (p.lines - 1) * p.src_ls + p.n * number_sizes[from],
                    out = (p.lines - 1) * p.dst_ls + p.n * number_sizes[to];
    const ptrdiff_t many = (p.lines - 1) * p.factor_ls + (p.n - 1) * p.factor_es + 1;
    if (in > MAX_BYTES || out > MAX_BYTES) return;
    void *memory[5];
    char *src = allocate(in, src_offset, &memory[0]), *dst[2];
    float *scale = (float *)allocate(many * 4, 0, &memory[1]), *bias = (float *)allocate(many * 4, 0, &memory[2]);
    for (int i = 0; i < 2; i++) dst[i] = allocate(out, dst_offset, &memory[3 + i]);
    for (ptrdiff_t i = 0; i < in; i++) src[i] = (char)(i * (31 + seed) + i / 251);
    for (ptrdiff_t i = 0; i < many; i++) scale[i] = (float)(i - 3) / 7, bias[i] = (float)(i % 5) - 2;
    if (factors & 2) p.scale = scale, p.bias = bias;
    for (ptrdiff_t k = 0; k < p.lines; k++)
        for (ptrdiff_t i = 0; i < p.n; i++) {
            const ptrdiff_t j = k * p.factor_ls + i * p.factor_es;
            convert_one(dst[0] + k * p.dst_ls + i * number_sizes[to], src + k * p.src_ls + i * number_sizes[from], from,
                        to, p.scale ? scale + j : NULL, p.scale ? bias + j : NULL);
        }
    for (int i = 0; lp_kernels_built(i); i++) {
        const lp_kernels *set = lp_kernels_built(i);
        if (!lp_kernels_available(set)) continue;
        memset(memory[4], CANARY, (size_t)(dst_offset + out));
        set->convert[from][to](dst[1], src, &p);
        if (memcmp(memory[3], memory[4], (size_t)(dst_offset + out)))
            complain(set->isa, "convert", &(lp_panel){.rows = p.lines, .cols = p.n, .width = from * 10 + to});
    }
    for (int i = 0; i < 5; i++) free(memory[i]);
}

/* Panels whose numbers are converted as they move: pixels of bytes and lines of float32. The kernel either does all of
 * the valid rows, padding beside them included, or nothing. */
static void fused(ptrdiff_t src_offset, ptrdiff_t dst_offset) {
    const ptrdiff_t style = byte() % 3, to = byte() % LP_RESULTS, factors = byte(), seed = byte(),
                    step = seed & 1 ? 1 : -1;
    const ptrdiff_t from = style == 2 ? LP_FLOAT32 : LP_UINT8, pixel = 1 + byte() % 5;
    char fill[LP_FILL_BYTES];
    lp_panel p = {.planes = 1, .rows = extent(), .cols = extent(), .width = number_sizes[to], .fill = fill};
    for (ptrdiff_t i = 0; i < LP_FILL_BYTES; i++) fill[i] = (char)(i % p.width + 100);
    if (style == 0) p.rows = 1 + p.rows % pixel, p.src_rs = step, p.src_cs = pixel;
    if (style == 1) p.cols = 4 << p.cols % 4;
    p.valid_rows = part(p.rows), p.valid_cols = part(p.cols);
    if (style == 1) p.valid_cols = 1 + byte() % pixel, p.src_rs = pixel, p.src_cs = step;
    if (style == 1 && p.valid_cols > p.cols) p.valid_cols = p.cols;
    if (style == 2) p.src_rs = 4, p.src_cs = stride(p.rows * 4);
    p.dst_cs = p.width, p.dst_rs = p.cols * p.width + (seed & 2 ? byte() : 0);
    const lp_factors none = {0}, steps = {.rs = factors >> 2 & 1, .cs = factors >> 3 & 1};
    const ptrdiff_t valid[3] = {1, p.valid_rows, p.valid_cols}, places[3] = {1, p.rows, p.cols};
    const struct span in = span(valid, (ptrdiff_t[3]){0, p.src_rs, p.src_cs}, number_sizes[from]);
    const struct span out = span(places, (ptrdiff_t[3]){0, p.dst_rs, p.dst_cs}, p.width);
    if (p.valid_rows < 1 || p.valid_cols < 1 || in.size > MAX_BYTES || out.size > MAX_BYTES) return;
    void *memory[6];
    char *low = allocate(in.size, src_offset, &memory[0]);
    char *expected = allocate(out.size, dst_offset, &memory[1]), *actual = allocate(out.size, dst_offset, &memory[2]);
    allocate(out.size, dst_offset, &memory[3]); /* what is there when a kernel does nothing */
    const ptrdiff_t many = p.rows + p.cols;
    float *scale = (float *)allocate(many * 4, 0, &memory[4]), *bias = (float *)allocate(many * 4, 0, &memory[5]);
    for (ptrdiff_t i = 0; i < in.size; i++) low[i] = (char)(i * (31 + seed) + i / 251);
    for (ptrdiff_t i = 0; i < many; i++) scale[i] = (float)(i - 3) / 7, bias[i] = (float)(i % 5) - 2;
    lp_factors f = factors & 1 ? steps : none;
    if (factors & 1) f.scale = scale, f.bias = bias;
    for (ptrdiff_t r = 0; r < p.valid_rows; r++)
        for (ptrdiff_t c = 0; c < p.cols; c++) {
            char *d = expected + r * p.dst_rs + c * p.dst_cs;
            const ptrdiff_t j = r * f.rs + c * f.cs;
            if (c >= p.valid_cols)
                memcpy(d, fill, (size_t)p.width);
            else
                convert_one(d, low - in.low + r * p.src_rs + c * p.src_cs, from, to, f.scale ? f.scale + j : NULL,
                            f.bias ? f.bias + j : NULL);
        }
    poison_gaps(low - in.low, low, in.size, &p);
    for (int i = 0; lp_kernels_built(i); i++) {
        const lp_kernels *set = lp_kernels_built(i);
        if (!lp_kernels_available(set) || !set->fused || !set->fused[from][to]) continue;
        memset(memory[2], CANARY, (size_t)(dst_offset + out.size));
        int done = set->fused[from][to](actual, low - in.low, &p, &f);
        if (memcmp(memory[done ? 1 : 3], memory[2], (size_t)(dst_offset + out.size))) complain(set->isa, "fused", &p);
    }
    ASAN_UNPOISON_MEMORY_REGION(low, (size_t)in.size);
    for (int i = 0; i < 6; i++) free(memory[i]);
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    next = data, end = data + size;
    const ptrdiff_t kind = byte(), word = byte(), src_offset = byte() % LINE, dst_offset = byte() % LINE;
    const ptrdiff_t width = word < 192 ? 1 << word % LP_WORDS : 1 + (word - 192) * 3;
    const ptrdiff_t room = width > LP_FILL_BYTES ? width : LP_FILL_BYTES;
    void *memory;
    char *fill = allocate(room, 0, &memory);
    for (ptrdiff_t i = 0; i < room; i++) fill[i] = (char)(i % width + 100);
    if (kind < 168)
        any_panel(fill, width, src_offset, dst_offset);
    else if (kind < 200)
        runs(fill, src_offset, dst_offset);
    else if (kind < 228)
        numbers(src_offset, dst_offset);
    else if (kind < 248)
        fused(src_offset, dst_offset);
    else
        lines(src_offset);
    free(memory);
    return 0;
}
