/* AVX-512, for what it does better than AVX2: whole lines past the caches, wherever rows begin, weights of 3 x 3
 * kernels, pixels with padding. All else is left to AVX2, which loses little where output comes in runs of 32 bytes.
 *
 * No machine was at hand to time this file: it is checked by emulation (.ci/emulate), and the cycles in the comments
 * are those that llvm-mca 19 counts for Zen 4 / Ice Lake, memory apart. */
#include "inline.h"
#include "layoutpack/kernels.h"

#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512VL__ && defined __AVX512DQ__ && \
    defined __AVX512VBMI__
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { LINE = 64 };

static inline __m256i load_32(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m512i load_64(const char *p) { return _mm512_loadu_si512(p); }
static inline __m512i two_32(const char *p, const char *q) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(p)), load_32(q), 1);
}

/* ---- runs past the caches ---- */

/* 1.1 / 1.1 cycles a line, AVX2 2.1 / 1.6. */
static void stream_lines(char *dst, const char *src, ptrdiff_t lines) {
    for (; lines > 0; lines--, dst += LINE, src += LINE) _mm512_stream_si512((void *)dst, load_64(src));
}

enum { AHEAD = 256, ALL = -1 };

/* A line of rows for each of `planes` planes, of which two share source lines. `row`, `planes`: constants. */
static ALWAYS_INLINE void load_rows(__m512i line[2], const char *src, ptrdiff_t rs, size_t row, int planes) {
    for (size_t i = 0; i < LINE / row; i++) __builtin_prefetch(src + (ptrdiff_t)i * rs + AHEAD);
    if (planes == 2) {
        __m512i a = load_64(src), b = load_64(src + rs);
        line[0] = _mm512_inserti64x4(a, _mm512_castsi512_si256(b), 1);
        line[1] = _mm512_shuffle_i64x2(a, b, 0xee); /* the upper halves */
    } else
        line[0] = row == 64 ? load_64(src) : two_32(src, src + rs);
}

/* The same where a run ends: its last rows, fewer than fill a line. */
static ALWAYS_INLINE void load_last_rows(__m512i line[2], const char *src, ptrdiff_t rs, size_t row, int planes,
                                         ptrdiff_t rows) {
    for (int k = 0; k < planes; k++) {
        char bytes[LINE] = {0};
        for (ptrdiff_t i = 0; i < rows; i++) memcpy(bytes + i * (ptrdiff_t)row, src + i * rs + k * (ptrdiff_t)row, row);
        line[k] = load_64(bytes);
    }
}

/* Rows to lines: where those begin inside a row, one permutation puts a line together from the rows of two. All planes
 * lie alike on their lines.
 *
 * 1.7 to 2.5 / 2.1 to 3.1 cycles a line. AVX2 takes 2.1 / 2.1 where lines begin with rows, and by way of scratch 4.1 /
 * 3.1 where they do not. */
static ALWAYS_INLINE void copy_run_of(char *dst, const char *src, const lp_panel *p, size_t row, int planes) {
    const ptrdiff_t step = (ptrdiff_t)(LINE / row), off = (ptrdiff_t)((uintptr_t)dst & (LINE - 1));
    unsigned char bytes[LINE];
    for (int i = 0; i < LINE; i++) bytes[i] = (unsigned char)(LINE - off + i);
    const __m512i shift = load_64((const char *)bytes);
    __m512i before[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, rows[2];
    __mmask64 mask = (__mmask64)ALL;
    if (off && p->before)
        load_rows(before, src - step * p->src_rs, p->src_rs, row, planes);
    else
        mask <<= off;
    ptrdiff_t left = off + p->rows * (ptrdiff_t)row; /* bytes from the first line on */
    dst -= off;
    for (ptrdiff_t r = 0; left > 0; r += step, left -= LINE, dst += LINE) {
        if (left < LINE) {
            if (p->after) return;
            mask &= (__mmask64)ALL >> (LINE - left);
        }
        if (r + step <= p->rows)
            load_rows(rows, src + r * p->src_rs, p->src_rs, row, planes);
        else
            load_last_rows(rows, src + r * p->src_rs, p->src_rs, row, planes, p->rows - r);
        for (int k = 0; k < planes; k++) {
            char *d = dst + k * p->dst_ps;
            __m512i line = _mm512_permutex2var_epi8(before[k], shift, rows[k]);
            if (mask == (__mmask64)ALL)
                _mm512_stream_si512((void *)d, line);
            else
                _mm512_mask_storeu_epi8(d, mask, line);
            before[k] = rows[k];
        }
        mask = (__mmask64)ALL;
    }
}

static void copy_run(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t row = p->cols * p->width;
    ptrdiff_t k = 0;
    if (row == 16) { /* the planner takes them for words */
        lp_kernels_avx2->copy_run(dst, src, p);
        return;
    }
    if (row == 32 && p->src_ps == 32 && p->dst_ps % LINE == 0)
        for (; k + 2 <= p->planes; k += 2) copy_run_of(dst + k * p->dst_ps, src + k * p->src_ps, p, 32, 2);
    for (; k < p->planes; k++)
        if (row == 32)
            copy_run_of(dst + k * p->dst_ps, src + k * p->src_ps, p, 32, 1);
        else
            copy_run_of(dst + k * p->dst_ps, src + k * p->src_ps, p, 64, 1);
}

/* ---- nine words a pixel ---- */

/* As weave9_template.h, with groups of 32 bytes for lanes of 16 (of 64 for words of 4), since bytes can cross lanes
 * here: the pixels of one plane of FRACTAL_Z are nine groups, and two planes go side by side. Words are turned round by
 * p mod 9, in four steps.
 *
 * Cycles for 576 bytes, to rows and back, words of 1, 2 and 4 bytes: 22 and 18, 22 and 18, 20 and 15 / 24 and 31, 24
 * and 31, 23 and 25. AVX2: 44 and 46, 38 and 37, 37 and 40 / 70 and 70, 37 and 48, 33 and 36.
 *
 * Byte b of a register, for words of w bytes: its place p, and where it lies in a plane's group when that is in order.
 * 25 is the inverse of 9 modulo 32 and 16. */
#define GROUP(w) ((w) == 4 ? 64 : 32)
#define PLACE(b, w) ((b) % GROUP(w) / (w))
#define TURN(b, w) (PLACE(b, w) % 9)
#define TO_ORDER(b, w) (9 * PLACE(b, w) * (w) % GROUP(w) + (b) % (w))
#define FROM_ORDER(b, w) (25 * PLACE(b, w) * (w) % GROUP(w) + (b) % (w))
#define EIGHT(f, b, w) \
    f(b, w), f(b + 1, w), f(b + 2, w), f(b + 3, w), f(b + 4, w), f(b + 5, w), f(b + 6, w), f(b + 7, w)
#define BYTES(f, w)                                                      \
    {EIGHT(f, 0, w),  EIGHT(f, 8, w),  EIGHT(f, 16, w), EIGHT(f, 24, w), \
     EIGHT(f, 32, w), EIGHT(f, 40, w), EIGHT(f, 48, w), EIGHT(f, 56, w)}
#define WORDS_124(f) {BYTES(f, 1), BYTES(f, 2), BYTES(f, 4)}
static const char turns[3][LINE] = WORDS_124(TURN);
static const char to_order[3][LINE] = WORDS_124(TO_ORDER);
static const char from_order[3][LINE] = WORDS_124(FROM_ORDER);

/* Register i takes words from register i + way * bit where their turn has the bit. */
static ALWAYS_INLINE void turn(__m512i u[9], const __mmask64 with_bit[4], int way) {
    _Pragma("GCC unroll 4") for (int bit = 0; bit < 4; bit++) {
        __m512i t[9];
        _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) t[i] =
            _mm512_mask_blend_epi8(with_bit[bit], u[i], u[(i + 9 + way * (1 << bit)) % 9]);
        _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) u[i] = t[i];
    }
}

/* The group with which register i begins, so that the word at place 0 is plane i's. */
#define FIRST(i, w) ((i) * (GROUP(w) / (w) == 32 ? 2 : 4) % 9 * GROUP(w))

/* One register's width of planes of dense pixels to nine rows, and back. */
static ALWAYS_INLINE void unweave9_step(char *dst, const char *src, const lp_panel *p, const __m512i order[9],
                                        const __mmask64 with_bit[4], int w) {
    __m512i u[9];
    _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) {
        const char *s = src + FIRST(i, w);
        u[i] = GROUP(w) == 32 ? two_32(s, s + p->src_ps) : load_64(s);
    }
    turn(u, with_bit, -1);
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++)
        _mm512_storeu_si512(dst + k * p->dst_rs, _mm512_permutexvar_epi8(order[k], u[k]));
}

static ALWAYS_INLINE void weave9_step(char *dst, const char *src, const lp_panel *p, const __m512i order[9],
                                      const __mmask64 with_bit[4], int w) {
    __m512i u[9];
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) u[k] =
        _mm512_permutexvar_epi8(order[k], load_64(src + k * p->src_cs));
    turn(u, with_bit, 1);
    _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) {
        char *d = dst + FIRST(i, w);
        if (GROUP(w) == 32) {
            _mm256_storeu_si256((__m256i *)d, _mm512_castsi512_si256(u[i]));
            _mm256_storeu_si256((__m256i *)(d + p->dst_ps), _mm512_extracti64x4_epi64(u[i], 1));
        } else
            _mm512_storeu_si512(d, u[i]);
    }
}

/* Planes of nine rows from dense pixels, or of nine columns to dense pixels, whose pixels are a group: whether this was
 * such a panel, and is done. `w`, the bytes of a word: a constant. */
static ALWAYS_INLINE int nines(char *dst, const char *src, const lp_panel *p, int w) {
    const ptrdiff_t group = GROUP(w), pixels = group / w, pixel = 9 * w, step = LINE / group;
    const int log2 = w >> 1;
    const int whole = p->valid_rows == p->rows && p->valid_cols == p->cols;
    const int unweave = p->rows == 9 && p->cols == pixels && p->src_cs == pixel && (step == 1 || p->dst_ps == group);
    const int weave = p->cols == 9 && p->rows == pixels && p->dst_rs == pixel && (step == 1 || p->src_ps == group);
    if (!whole || !(unweave || weave)) return 0;

    /* Registers differ by a turn of what is in a group. */
    const __m512i first = load_64(unweave ? to_order[log2] : from_order[log2]);
    const __m512i upper = step == 2 ? _mm512_maskz_set1_epi8((__mmask64)ALL << 32, 32) : _mm512_setzero_si512();
    __m512i order[9];
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) {
        const __m512i at = _mm512_add_epi8(first, _mm512_set1_epi8((char)((unweave ? 1 : -25) * k * w)));
        order[k] = _mm512_or_si512(_mm512_and_si512(at, _mm512_set1_epi8((char)(group - 1))), upper);
    }
    __mmask64 with_bit[4];
    _Pragma("GCC unroll 4") for (int bit = 0; bit < 4; bit++) with_bit[bit] =
        _mm512_test_epi8_mask(load_64(turns[log2]), _mm512_set1_epi8((char)(1 << bit)));

    lp_panel rest = *p; /* where two planes go side by side, an odd one is left */
    for (; rest.planes >= step; rest.planes -= step, dst += step * p->dst_ps, src += step * p->src_ps)
        if (unweave)
            unweave9_step(dst, src, p, order, with_bit, w);
        else
            weave9_step(dst, src, p, order, with_bit, w);
    if (rest.planes) lp_kernels_avx2->transpose[log2](dst, src, &rest);
    return 1;
}

/* ---- pixels with padding ---- */

#define UNPACK(side, w, a, b)                       \
    ((w) == 1   ? _mm512_unpack##side##_epi8(a, b)  \
     : (w) == 2 ? _mm512_unpack##side##_epi16(a, b) \
     : (w) == 4 ? _mm512_unpack##side##_epi32(a, b) \
                : _mm512_unpack##side##_epi64(a, b))

/* 64 / w pixels of four words and padding, `pixel` bytes each, from a register of each word. Unpacks make dense pixels,
 * in lanes of 16 bytes; then a line takes one permutation that leaves the padding alone.
 *
 * Cycles for words of 1, 2 and 4 bytes to 32, 32 and 64: 44, 24, 24 / 44, 24, 24. AVX2: 80, 46, 45 / 79, 46, 34. */
static ALWAYS_INLINE void pad_step(char *dst, const __m512i v[4], __m512i fill, int w, int pixel) {
    const int in_lane = 4 / w, in_line = LINE / pixel; /* pixels */
    const __m512i ab[2] = {UNPACK(lo, w, v[0], v[1]), UNPACK(hi, w, v[0], v[1])};
    const __m512i cd[2] = {UNPACK(lo, w, v[2], v[3]), UNPACK(hi, w, v[2], v[3])};
    _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
        const __m512i dense = j % 2 ? UNPACK(hi, 2 * w, ab[j / 2], cd[j / 2]) : UNPACK(lo, 2 * w, ab[j / 2], cd[j / 2]);
        _Pragma("GCC unroll 16") for (int i = 0; i < 4 * in_lane; i += in_line) { /* pixel i of this register */
            /* Its w times 4 bytes, and where there are two to a line those of the next. */
            const int s = i * w, t = in_line == 2 ? s + w : 0;
            const __m512i from =
                _mm512_set_epi32(0, 0, 0, 0, t + 3, t + 2, t + 1, t, 0, 0, 0, 0, s + 3, s + 2, s + 1, s);
            const __mmask16 words = (__mmask16)((1 << w) - 1);
            const __mmask16 mask = in_line == 2 ? (__mmask16)(words | words << 8) : words;
            const int at = i / in_lane * (16 / w) + j * in_lane + i % in_lane;
            _mm512_storeu_si512(dst + at * pixel, _mm512_mask_permutexvar_epi32(fill, mask, from, dense));
        }
    }
}

/* Up to four planes to pixels of 32 or 64 bytes side by side: whether this was such a panel, and is done. The last step
 * overlaps the one before it. */
static ALWAYS_INLINE int pads(char *dst, const char *src, const lp_panel *p, int w) {
    const ptrdiff_t step = LINE / w, pixel = p->cols * w, rows = p->valid_rows;
    if (p->valid_cols > 4 || p->dst_rs != pixel || (pixel != 64 && (pixel != 32 || w == 4)) || rows < step) return 0;
    const __m512i fill = load_64(p->fill);
    for (ptrdiff_t r = 0; r < rows; r += step) {
        if (r + step > rows) r = rows - step;
        for (ptrdiff_t k = 0; k < p->planes; k++) {
            char *d = dst + k * p->dst_ps + r * pixel;
            const char *s = src + k * p->src_ps + r * w;
            __m512i v[4];
            for (int c = 0; c < 4; c++) v[c] = c < p->valid_cols ? load_64(s + c * p->src_cs) : fill;
            if (pixel == 32)
                pad_step(d, v, fill, w, 32);
            else
                pad_step(d, v, fill, w, 64);
        }
    }
    if (rows < p->rows) {
        lp_panel below = *p;
        below.rows -= rows, below.valid_rows = 0;
        lp_kernels_avx2->copy(dst + rows * pixel, src, &below);
    }
    return 1;
}

#define TRANSPOSE(w, log2)                                                                                  \
    static void transpose_##w(char *dst, const char *src, const lp_panel *p) {                              \
        if (!nines(dst, src, p, w) && !pads(dst, src, p, w)) lp_kernels_avx2->transpose[log2](dst, src, p); \
    }
TRANSPOSE(1, 0)
TRANSPOSE(2, 1)
TRANSPOSE(4, 2)

/* ---- all else ---- */

_Static_assert(sizeof(lp_kernels) == 19 * sizeof(void *), "a new kernel has a row in the table below too");

#define AS_AVX2(name, member) \
    static void name(char *dst, const char *src, const lp_panel *p) { lp_kernels_avx2->member(dst, src, p); }
AS_AVX2(copy, copy)
AS_AVX2(transpose_8, transpose[3])
AS_AVX2(transpose_16, transpose[4])
AS_AVX2(strided_1, strided[0])
AS_AVX2(strided_2, strided[1])
AS_AVX2(strided_4, strided[2])
AS_AVX2(strided_8, strided[3])
AS_AVX2(strided_16, strided[4])
AS_AVX2(strided_any, strided_any)

static void fence(void) { _mm_sfence(); }

static const lp_kernels table = {
    .isa = "avx512",
    .copy = copy,
    .transpose = {transpose_1, transpose_2, transpose_4, transpose_8, transpose_16},
    .strided = {strided_1, strided_2, strided_4, strided_8, strided_16},
    .strided_any = strided_any,
    .copy_run = copy_run,
    .stream = stream_lines,
    .fence = fence,
    .convert = lp_convert_avx512,
    .fused = lp_fused_avx2,
    .pixels_run = lp_pixels_avx2,
};
const lp_kernels *const lp_kernels_avx512 = &table;
#else
const lp_kernels *const lp_kernels_avx512 = NULL;
#endif
