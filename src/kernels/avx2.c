/* AVX2. Transpositions by lane networks; everything else is the portable C, compiled for AVX2. */
#include "layoutpack/kernels.h"

#if defined __AVX2__ && defined __FMA__ && defined __F16C__
#include <immintrin.h>
#include <stdint.h>

#include "network.h"
#include "portable.h"

static inline __m128i load_1(const char *const *p) { return _mm_loadu_si128((const __m128i *)p[0]); }

/* The second lane comes straight from memory: a load, no shuffle. */
static inline __m256i load_2(const char *const *p) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_1(p)), _mm_loadu_si128((const __m128i *)p[1]), 1);
}

static inline void store_1(char *p, __m128i v) { _mm_storeu_si128((__m128i *)p, v); }
static inline void store_2(char *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline void stream_1(char *p, __m128i v) { _mm_stream_si128((__m128i *)p, v); }
static inline void stream_2(char *p, __m256i v) { _mm256_stream_si256((__m256i *)p, v); }

static inline __m256i load_32(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store_32(char *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

static inline void stream_halves(char *p, __m256i v) {
    stream_1(p, _mm256_castsi256_si128(v));
    stream_1(p + 16, _mm256_extracti128_si256(v, 1));
}

NETWORK(turn_4, __m256i, 4, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)

/* Sixteen bytes in both lanes. */
static inline __m256i both(const signed char *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* Up to where 16-byte loads may run that begin at a word of plane k: the last word of the panel, where no step from
 * word to word is longer than a page of memory, since then every page in between holds a word. */
static const char *readable_end(const char *src, ptrdiff_t k, const lp_panel *p) {
    ptrdiff_t run = p->valid_rows * p->width, size = (p->valid_cols - 1) * p->src_cs + run;
    if (p->src_cs <= 0 || p->src_cs > 4096 || p->valid_cols == 0) return src;
    int near = p->src_ps >= size && p->src_ps - size + run <= 4096;
    return src + size + (near ? (p->planes - 1 - k) * p->src_ps : 0);
}

/* Ask for the first plane of a later call that lies as far ahead as this one of this call. */
static inline void prefetch_ahead(const char *src, const lp_panel *p) {
    if (p->ahead) lp_prefetch(src + p->ahead, 64, 1, p->valid_rows * p->valid_cols * p->width);
}

#define WORD_BYTES 1
#define SUFFIX 8
#define LO _mm256_unpacklo_epi8
#define HI _mm256_unpackhi_epi8
#define LO2 _mm256_unpacklo_epi16
#define HI2 _mm256_unpackhi_epi16
#include "pixels_template.h"

#define WORD_BYTES 2
#define SUFFIX 16
#define LO _mm256_unpacklo_epi16
#define HI _mm256_unpackhi_epi16
#define LO2 _mm256_unpacklo_epi32
#define HI2 _mm256_unpackhi_epi32
#include "pixels_template.h"

#define WORD_BYTES 4
#define SUFFIX 32
#define LO _mm256_unpacklo_epi32
#define HI _mm256_unpackhi_epi32
#define LO2 _mm256_unpacklo_epi64
#define HI2 _mm256_unpackhi_epi64
#include "pixels_template.h"

const lp_pixels_fn lp_pixels_avx2[LP_WORDS] = {pixels_run_8, pixels_run_16, pixels_run_32};

/* Masks of the bytes whose number has a bit. */
static const signed char with_bit_1[16] = {0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1};
static const signed char with_bit_2[16] = {0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1, 0, 0, -1, -1};
static const signed char with_bit_4[16] = {0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1};
static const signed char with_bit_8[16] = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1};

#define WORD_BYTES 1
#define SUFFIX 8
#define TURN(a, b, bit) _mm256_blendv_epi8(a, b, both(with_bit_##bit))
#include "weave9_template.h"

#define WORDS_WITH_BIT_1 0xaa
#define WORDS_WITH_BIT_2 0xcc
#define WORDS_WITH_BIT_4 0xf0
#define WORDS_WITH_BIT_8 0

#define WORD_BYTES 2
#define SUFFIX 16
#define TURN(a, b, bit) _mm256_blend_epi16(a, b, WORDS_WITH_BIT_##bit)
#include "weave9_template.h"

#define WORD_BYTES 4
#define SUFFIX 32
#define TURN(a, b, bit) _mm256_blend_epi32(a, b, WORDS_WITH_BIT_##bit)
#include "weave9_template.h"

/* Words of 8 bytes fill a pixel quickly: the portable code is as good. */
static inline int nines_64(char *dst, const char *src, const lp_panel *p) {
    (void)dst, (void)src, (void)p;
    return 0;
}

static inline int pixels_64(char *dst, const char *src, const lp_panel *p) {
    const int three = p->cols == 3 || p->rows == 3; /* lanes of two take 1.1 to 1.7 times as long */
    if (!pads_64(p) && !three) return 0;
    transpose_64(dst, src, p);
    return 1;
}

/* Padded rows of up to 16 valid bytes: one load, one merge with the padding and one or two stores a row. The load runs
 * past the valid bytes, into the next row; where there is none, the portable code goes on. */
static ALWAYS_INLINE void pad_rows(char *dst, const char *src, const lp_panel *p, ptrdiff_t rows, int row) {
    ptrdiff_t run = p->valid_cols * p->width, dst_rs = p->dst_rs, src_rs = p->src_rs;
    signed char bytes[16];
    for (int i = 0; i < 16; i++) bytes[i] = i < run ? -1 : 0;
    __m128i mask = _mm_loadu_si128((const __m128i *)bytes);
    __m256i fill = load_32(p->fill), fill_high = load_32(p->fill + 32);
    __m128i fill_low = _mm_andnot_si128(mask, _mm256_castsi256_si128(fill));
    for (; rows > 0; rows--, dst += dst_rs, src += src_rs) {
        __m128i words = _mm_or_si128(_mm_and_si128(_mm_loadu_si128((const __m128i *)src), mask), fill_low);
        store_32(dst, _mm256_inserti128_si256(fill, words, 0));
        if (row == 64) store_32(dst + 32, fill_high);
    }
}

static void copy_lanes(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t run = p->valid_cols * p->width, row = p->cols * p->width;
    /* No step of more than a page: all that is read before the last valid byte can be read. */
    if (run > 0 && run <= 16 && run < row && (row == 32 || row == 64) && p->src_rs > 0 && p->src_rs <= 4096) {
        ptrdiff_t safe = ((p->valid_rows - 1) * p->src_rs + run - 16) / p->src_rs;
        if (safe > p->valid_rows) safe = p->valid_rows;
        if (safe > 0) {
            if (row == 32)
                pad_rows(dst, src, p, safe, 32);
            else
                pad_rows(dst, src, p, safe, 64);
            lp_panel rest = *p;
            rest.rows -= safe;
            rest.valid_rows -= safe;
            copy(dst + safe * p->dst_rs, src + safe * p->src_rs, &rest);
            return;
        }
    }
    copy(dst, src, p);
}
static void copy_lanes_planes(char *dst, const char *src, const lp_panel *p) {
    if (copies_whole_rows(dst, src, p)) return;
    for (ptrdiff_t k = 0; k < p->planes; k++) copy_lanes(dst + k * p->dst_ps, src + k * p->src_ps, p);
}

#define LANES 1
#define VECTOR __m128i
#define LOAD load_1
#define STORE store_1

#define WORD_BYTES 1
#define SUFFIX 8x1
#define LO _mm_unpacklo_epi8
#define HI _mm_unpackhi_epi8
#include "lanes_template.h"

#define WORD_BYTES 2
#define SUFFIX 16x1
#define LO _mm_unpacklo_epi16
#define HI _mm_unpackhi_epi16
#include "lanes_template.h"

#define WORD_BYTES 4
#define SUFFIX 32x1
#define LO _mm_unpacklo_epi32
#define HI _mm_unpackhi_epi32
#include "lanes_template.h"

#define WORD_BYTES 8
#define SUFFIX 64x1
#define LO _mm_unpacklo_epi64
#define HI _mm_unpackhi_epi64
#include "lanes_template.h"

#undef LANES
#undef VECTOR
#undef LOAD
#undef STORE
#define LANES 2
#define VECTOR __m256i
#define LOAD load_2
#define STORE store_2

#define WORD_BYTES 1
#define SUFFIX 8x2
#define LO _mm256_unpacklo_epi8
#define HI _mm256_unpackhi_epi8
#include "lanes_template.h"

#define WORD_BYTES 2
#define SUFFIX 16x2
#define LO _mm256_unpacklo_epi16
#define HI _mm256_unpackhi_epi16
#include "lanes_template.h"

#define WORD_BYTES 4
#define SUFFIX 32x2
#define LO _mm256_unpacklo_epi32
#define HI _mm256_unpackhi_epi32
#include "lanes_template.h"

#define WORD_BYTES 8
#define SUFFIX 64x2
#define LO _mm256_unpacklo_epi64
#define HI _mm256_unpackhi_epi64
#include "lanes_template.h"

/* The widest network that the panel has room for. What is smaller goes to the portable kernels. What is to be done is
 * decided once for all planes, and functions of their own do it: of blocks of 3 x 3 or 5 x 5 weights to decide and to
 * save registers for each took as long as to move them. */
#define TRANSPOSE(bits)                                                                                         \
    static void transpose_lanes_##bits(char *dst, const char *src, const lp_panel *p) {                         \
        const ptrdiff_t lane = 128 / bits, pixel = p->valid_rows * (bits / 8), row = p->cols * (bits / 8);      \
        int narrow = p->valid_rows < lane && (p->src_cs < pixel || (p->src_cs == pixel && p->valid_rows <= 4)); \
        int few = p->cols > 4 && p->cols < lane && p->valid_cols == p->cols && p->valid_rows >= lane;           \
        if (nines_##bits(dst, src, p) || pixels_##bits##_planes(dst, src, p)) return;                           \
        if (few && p->dst_rs == row)                                                                            \
            few_##bits##x1_planes(dst, src, p);                                                                 \
        else if (p->cols < lane || narrow || p->valid_rows == 0)                                                \
            transpose_##bits##_planes(dst, src, p);                                                             \
        else if (p->cols < 2 * lane)                                                                            \
            panel_##bits##x1(dst, src, p);                                                                      \
        else                                                                                                    \
            panel_##bits##x2(dst, src, p);                                                                      \
    }
#define EACH_PLANE(bits)                                                                         \
    PLANES(transpose_##bits)                                                                     \
    PLANES(few_##bits##x1)                                                                       \
    static int pixels_##bits##_planes(char *dst, const char *src, const lp_panel *p) {           \
        ptrdiff_t k = 0;                                                                         \
        while (k < p->planes && pixels_##bits(dst + k * p->dst_ps, src + k * p->src_ps, p)) k++; \
        return k > 0;                                                                            \
    }
EACH_PLANE(8)
EACH_PLANE(16)
EACH_PLANE(32)
EACH_PLANE(64)
TRANSPOSE(8)
TRANSPOSE(16)
TRANSPOSE(32)
TRANSPOSE(64)

/* ---- runs past the caches ---- */

static void stream_lines(char *dst, const char *src, ptrdiff_t lines) {
    for (; lines > 0; lines--, dst += 64, src += 64) {
        stream_2(dst, load_32(src));
        stream_2(dst + 32, load_32(src + 32));
    }
}

enum { PIECE = 4096, AHEAD = 256 };

/* Bytes of the run that the panel writes, counted from its first row: from line to line. */
static inline ptrdiff_t first_byte(const char *dst, const lp_panel *p) {
    return p->before ? -(ptrdiff_t)((uintptr_t)dst & 63) : 0;
}

static inline ptrdiff_t last_byte(const char *dst, const lp_panel *p, ptrdiff_t row) {
    ptrdiff_t size = p->rows * row;
    return p->after ? size - (ptrdiff_t)((uintptr_t)(dst + size) & 63) : size;
}

static inline ptrdiff_t floor_div(ptrdiff_t a, ptrdiff_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/* Bytes [first, last) of a run to dst + first, from `rows`, which begins at byte `at` of the run. */
static void flush_run(char *dst, const char *rows, ptrdiff_t at, ptrdiff_t first, ptrdiff_t last) {
    char *d = dst + first;
    const char *s = rows + (first - at);
    ptrdiff_t n = last - first, head = (ptrdiff_t)(-(uintptr_t)d & 63);
    if (head > n) head = n;
    memcpy(d, s, (size_t)head);
    stream_lines(d + head, s + head, (n - head) / 64);
    ptrdiff_t done = head + (n - head) / 64 * 64;
    memcpy(d + done, s + done, (size_t)(n - done));
}

/* One plane. Where rows and lines begin together its rows are stored as they come, else by way of scratch. */
static ALWAYS_INLINE void copy_run_1(char *dst, const char *src, const lp_panel *p, size_t row) {
    const ptrdiff_t n = (ptrdiff_t)row;
    ptrdiff_t first = first_byte(dst, p), last = last_byte(dst, p, n);
    ptrdiff_t r = floor_div(first, n), at = r * n, end = (last + n - 1) / n;
    if (((uintptr_t)dst & (row - 1)) == 0) {
        for (; r < end; r++) {
            const char *s = src + r * p->src_rs;
            __builtin_prefetch(s + AHEAD);
            if (row == 16)
                stream_1(dst + r * n, load_1(&s));
            else
                for (ptrdiff_t i = 0; i < n; i += 32) stream_2(dst + r * n + i, load_32(s + i));
        }
        return;
    }
    _Alignas(64) char rows[PIECE + 128];
    char *to = rows;
    for (; r < end; r++, to += n) {
        const char *s = src + r * p->src_rs;
        __builtin_prefetch(s + AHEAD);
        memcpy(to, s, row);
    }
    flush_run(dst, rows, at, first, last);
}

/* Two planes whose rows of 32 bytes share source lines: each line is read once, whole. */
static void copy_run_2(char *dst, const char *src, const lp_panel *p) {
    char *dst_2 = dst + p->dst_ps;
    ptrdiff_t first = first_byte(dst, p), last = last_byte(dst, p, 32);
    if (((uintptr_t)dst ^ (uintptr_t)dst_2) & 63) {
        copy_run_1(dst, src, p, 32);
        copy_run_1(dst_2, src + 32, p, 32);
        return;
    }
    ptrdiff_t r = floor_div(first, 32), at = r * 32, end = (last + 31) / 32;
    if (((uintptr_t)dst & 31) == 0) {
        if (((uintptr_t)(dst + r * 32) & 63) && r < end) {
            stream_2(dst + r * 32, load_32(src + r * p->src_rs));
            stream_2(dst_2 + r * 32, load_32(src + r * p->src_rs + 32));
            r++;
        }
        for (; r + 2 <= end; r += 2) {
            const char *s = src + r * p->src_rs;
            __builtin_prefetch(s + AHEAD);
            __builtin_prefetch(s + p->src_rs + AHEAD);
            __m256i a = load_32(s), b = load_32(s + 32), c = load_32(s + p->src_rs), d = load_32(s + p->src_rs + 32);
            stream_2(dst + r * 32, a);
            stream_2(dst + r * 32 + 32, c);
            stream_2(dst_2 + r * 32, b);
            stream_2(dst_2 + r * 32 + 32, d);
        }
        if (r < end) {
            stream_2(dst + r * 32, load_32(src + r * p->src_rs));
            stream_2(dst_2 + r * 32, load_32(src + r * p->src_rs + 32));
        }
        return;
    }
    _Alignas(64) char rows[PIECE + 128], rows_2[PIECE + 128];
    char *to = rows, *to_2 = rows_2;
    for (; r < end; r++, to += 32, to_2 += 32) {
        const char *s = src + r * p->src_rs;
        __builtin_prefetch(s + AHEAD);
        store_32(to, load_32(s));
        store_32(to_2, load_32(s + 32));
    }
    flush_run(dst, rows, at, first, last);
    flush_run(dst_2, rows_2, at, first, last);
}

static void copy_run(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t row = p->cols * p->width, k = 0;
    if (row == 32 && p->src_ps == 32)
        for (; k + 2 <= p->planes; k += 2) copy_run_2(dst + k * p->dst_ps, src + k * 32, p);
    for (; k < p->planes; k++) {
        char *d = dst + k * p->dst_ps;
        const char *s = src + k * p->src_ps;
        if (row == 16)
            copy_run_1(d, s, p, 16);
        else if (row == 32)
            copy_run_1(d, s, p, 32);
        else
            copy_run_1(d, s, p, 64);
    }
}

static void fence(void) { _mm_sfence(); }

static const lp_kernels table = {
    .isa = "avx2",
    .copy = copy_lanes_planes,
    .transpose = {transpose_lanes_8, transpose_lanes_16, transpose_lanes_32, transpose_lanes_64, transpose_128_planes},
    .strided = {strided_8_planes, strided_16_planes, strided_32_planes, strided_64_planes, strided_128_planes},
    .strided_any = strided_any_planes,
    .copy_run = copy_run,
    .stream = stream_lines,
    .fence = fence,
    .convert = lp_convert_avx2,
    .fused = lp_fused_avx2,
    .pixels_run = lp_pixels_avx2,
};
const lp_kernels *const lp_kernels_avx2 = &table;
#else
const lp_kernels *const lp_kernels_avx2 = NULL;
#endif
