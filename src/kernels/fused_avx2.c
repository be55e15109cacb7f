/* Panels whose numbers are converted in registers, between the load and the store: without the scratch in between,
 * which costs a second load, store and call for each tile (fp32 of 8 x 64 x 56 x 56 to fp16 NC1HWC0 0.4 to 0.6 of
 * memcpy with it, 0.9 to 1.5 without). */
#include <stdint.h>
#include <string.h>

#include "layoutpack/kernels.h"

#if defined __AVX2__ && defined __FMA__ && defined __F16C__
#include "network.h"
#include "numbers_avx2.h"

typedef __m128i (*narrow_fn)(__m256);
typedef __m256i (*both_fn)(__m256, __m256);
typedef void (*store_fn)(char *, __m256);

static inline __m128i load_16(const char *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline __m256i load_32(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store_16(char *p, __m128i v) { _mm_storeu_si128((__m128i *)p, v); }
static inline void store_32(char *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline __m256i both(__m128i lane) { return _mm256_broadcastsi128_si256(lane); }

/* ---- pixels of bytes, which are the same when they are multiplied by 1 and 0 is added ---- */

enum { PIXEL = 4 }; /* bytes at the most, so that 4 pixels are in one load */

/* The byte of a pixel that is its first in memory. */
static inline const char *lowest(const char *src, ptrdiff_t words, ptrdiff_t step) {
    return step < 0 ? src + (words - 1) * step : src;
}

/* Sixteen pixels from `s` on, of which the bytes behind `end` cannot be read: from `s`, or from a copy in `room`. */
static inline const char *readable(const char *s, const char *end, char *room) {
    if (end - s >= 16 * PIXEL) return s;
    memcpy(room, s, (size_t)(end - s));
    return room;
}

/* A word of a shuffle that brings byte `at` to the lowest byte and zeros to the others. */
#define LOWEST_BYTE(at) ((at) | -256)

/* Pixels to planes: one shuffle brings a channel of eight pixels to where their floats will be. Sixteen pixels at a
 * time: for float32 half a line at a time takes 22.1 us instead of 20.4 (224 x 224 x 3). */
static ALWAYS_INLINE void split(char *dst, const char *src, const lp_panel *p, const lp_factors *f, int planes,
                                ptrdiff_t size, store_fn store) {
    const ptrdiff_t n = p->valid_cols, pixel = p->src_cs, dst_rs = p->dst_rs;
    const char *low = lowest(src, planes, p->src_rs), *end = low + (n - 1) * pixel + planes;
    char room[16 * PIXEL] = {0};
    __m256i place[PIXEL];
    __m256 scale[PIXEL], bias[PIXEL];
    for (int k = 0; k < planes; k++) {
        int32_t from[4];
        for (int i = 0; i < 4; i++) from[i] = LOWEST_BYTE((int32_t)(src + k * p->src_rs - low + i * pixel));
        place[k] = both(load_16((char *)from));
        scale[k] = _mm256_set1_ps(f->scale ? f->scale[k * f->rs] : 1);
        bias[k] = _mm256_set1_ps(f->scale ? f->bias[k * f->rs] : 0);
    }
    for (ptrdiff_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16; /* overlaps the step before */
        const char *s = readable(low + i * pixel, end, room);
        char *d = dst + i * size;
        _Pragma("GCC unroll 2") for (int half = 0; half < 2; half++, s += 8 * pixel, d += 8 * size) {
            __m256i v = lanes_of(load_16(s), load_16(s + 4 * pixel));
            _Pragma("GCC unroll 4") for (int k = 0; k < planes; k++) {
                __m256 x = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, place[k]));
                store(d + k * dst_rs, multiply_add(x, scale[k], bias[k]));
            }
        }
    }
}

static ALWAYS_INLINE int splits(char *dst, const char *src, const lp_panel *p, const lp_factors *f, ptrdiff_t size,
                                store_fn store) {
    const ptrdiff_t step = p->src_rs < 0 ? -p->src_rs : p->src_rs, planes = p->valid_rows;
    if (step != 1 || planes > p->src_cs || p->src_cs > PIXEL || p->dst_cs != size || f->cs) return 0;
    if (p->valid_cols < 16 || p->valid_cols < p->cols) return 0;
    if (planes == 3)
        split(dst, src, p, f, 3, size, store);
    else if (planes == 4)
        split(dst, src, p, f, 4, size, store);
    else
        return 0;
    return 1;
}

/* Pixels to longer, padded ones, of 16, 32 or 64 bytes. Four pixels at a time: shuffles make places for four numbers of
 * each pixel, with zeros for channels that are none; there the padding goes. */
static ALWAYS_INLINE void widen(char *dst, const char *src, const lp_panel *p, const lp_factors *f, ptrdiff_t bytes,
                                ptrdiff_t size, both_fn both_narrow) {
    const ptrdiff_t n = p->valid_rows, words = p->valid_cols, pixel = p->src_rs, dst_rs = p->dst_rs;
    const char *low = lowest(src, words, p->src_cs), *end = low + (n - 1) * pixel + words;
    char room[16 * PIXEL] = {0}, padding[64];
    int32_t from[4 * PIXEL];
    float factors[2][2 * PIXEL] = {{0}};
    for (int i = 0; i < 4 * PIXEL; i++) {
        int k = i % PIXEL;
        from[i] = k < words ? LOWEST_BYTE((int32_t)(src + k * p->src_cs - low + i / PIXEL * pixel)) : -1;
        if (i >= 2 * PIXEL || k >= words) continue;
        factors[0][i] = f->scale ? f->scale[k * f->cs] : 1;
        factors[1][i] = f->scale ? f->bias[k * f->cs] : 0;
    }
    memcpy(padding, p->fill, 64);
    memset(padding, 0, (size_t)(words * size));
    const __m256i place[2] = {load_32((char *)from), load_32((char *)(from + 2 * PIXEL))};
    const __m256 scale = several(factors[0]), bias = several(factors[1]);
    const __m256i row = load_32(padding), rest = load_32(padding + 32);
    for (ptrdiff_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16; /* overlaps the step before */
        const char *s = readable(low + i * pixel, end, room);
        char *d = dst + i * dst_rs;
        for (int quarter = 0; quarter < 4; quarter++, s += 4 * pixel) {
            __m256i four = both(load_16(s));
            __m256 x[2];
            __m128i pixels[4];
            for (int k = 0; k < 2; k++) {
                x[k] = multiply_add(_mm256_cvtepi32_ps(_mm256_shuffle_epi8(four, place[k])), scale, bias);
                pixels[2 * k] = _mm_castps_si128(_mm256_castps256_ps128(x[k]));
                pixels[2 * k + 1] = _mm_castps_si128(_mm256_extractf128_ps(x[k], 1));
            }
            if (size == 2) {
                __m256i narrow = both_narrow(x[0], x[1]);
                __m128i pair[2] = {_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1)};
                for (int k = 0; k < 4; k++)
                    pixels[k] = k % 2 ? _mm_srli_si128(pair[k / 2], 8) : _mm_move_epi64(pair[k / 2]);
            }
            for (int k = 0; k < 4; k++, d += dst_rs) {
                if (bytes == 16)
                    store_16(d, _mm_or_si128(pixels[k], _mm256_castsi256_si128(row)));
                else
                    store_32(d, _mm256_or_si256(_mm256_zextsi128_si256(pixels[k]), row));
                if (bytes == 64) store_32(d + 32, rest);
            }
        }
    }
}

static ALWAYS_INLINE int widens(char *dst, const char *src, const lp_panel *p, const lp_factors *f, ptrdiff_t size,
                                both_fn both_narrow) {
    const ptrdiff_t step = p->src_cs < 0 ? -p->src_cs : p->src_cs, words = p->valid_cols, bytes = p->cols * size;
    if (step != 1 || words > p->src_rs || p->src_rs > PIXEL || p->dst_cs != size || f->rs || p->valid_rows < 16)
        return 0;
    if (bytes == 16)
        widen(dst, src, p, f, 16, size, both_narrow);
    else if (bytes == 32)
        widen(dst, src, p, f, 32, size, both_narrow);
    else if (bytes == 64)
        widen(dst, src, p, f, 64, size, both_narrow);
    else
        return 0;
    return 1;
}

/* ---- transpositions ---- */

NETWORK(turn, __m256i, 8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16)

/* Number of column c, eight rows of it, converted but for the last rounding. */
static ALWAYS_INLINE __m256 column(const char *src, const lp_panel *p, const lp_factors *f, ptrdiff_t c) {
    __m256 x = load_float32(src + c * p->src_cs);
    return f->scale ? multiply_add(x, spread(f->scale + c * f->cs), spread(f->bias + c * f->cs)) : x;
}

/* Eight rows of sixteen columns. Columns from `valid` on are padding. */
static ALWAYS_INLINE void transpose_tile(char *dst, ptrdiff_t dst_rs, const char *src, const lp_panel *p,
                                         const lp_factors *f, ptrdiff_t valid, narrow_fn narrow, both_fn both_narrow) {
    __m256i r[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
        if (i + 8 < valid)
            r[i] = both_narrow(column(src, p, f, i), column(src, p, f, i + 8));
        else
            r[i] = lanes_of(i < valid ? narrow(column(src, p, f, i)) : load_16(p->fill), load_16(p->fill));
    }
    turn(r);
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) store_32(dst + i * dst_rs, r[i]);
}

/* `strips` times 16 columns: two are a line of the output. */
static ALWAYS_INLINE void transpose_strips(char *dst, const char *src, const lp_panel *p, const lp_factors *f,
                                           ptrdiff_t valid, int strips, narrow_fn narrow, both_fn both_narrow) {
    for (ptrdiff_t r = 0; r < p->valid_rows; r += 8) {
        if (r + 8 > p->valid_rows) r = p->valid_rows - 8;
        for (int k = 0; k < strips; k++) {
            lp_factors here = *f;
            if (f->scale) here.scale += 16 * k * f->cs, here.bias += 16 * k * f->cs;
            transpose_tile(dst + r * p->dst_rs + 32 * k, p->dst_rs, src + r * 4 + 16 * k * p->src_cs, p, &here, valid,
                           narrow, both_narrow);
        }
    }
}

/* Rows of float32 to columns of numbers of two bytes. */
static ALWAYS_INLINE int transposes(char *dst, const char *src, const lp_panel *p, const lp_factors *f,
                                    narrow_fn narrow, both_fn both_narrow) {
    if (p->src_rs != 4 || p->dst_cs != 2 || p->cols < 16 || p->valid_rows < 8 || f->rs) return 0;
    for (ptrdiff_t c = 0; c < p->cols; c += 16) {
        const int pair = c + 32 <= p->valid_cols;
        if (c + 16 > p->cols) c = p->cols - 16; /* overlaps the strip before */
        ptrdiff_t valid = p->valid_cols - c, from = valid > 0 ? c : 0;
        lp_factors here = *f;
        if (f->scale) here.scale += from * f->cs, here.bias += from * f->cs;
        char *d = dst + 2 * c;
        const char *s = src + from * p->src_cs;
        if (pair) {
            transpose_strips(d, s, p, &here, 16, 2, narrow, both_narrow);
            c += 16;
        } else if (valid >= 16)
            transpose_strips(d, s, p, &here, 16, 1, narrow, both_narrow);
        else
            transpose_strips(d, s, p, &here, valid, 1, narrow, both_narrow);
    }
    return 1;
}

#define PIXELS(to, size, both_narrow)                                                                 \
    static int uint8_to_##to(char *dst, const char *src, const lp_panel *p, const lp_factors *f) {    \
        return splits(dst, src, p, f, size, store_##to) || widens(dst, src, p, f, size, both_narrow); \
    }
#define TRANSPOSITION(to)                                                                            \
    static int float32_to_##to(char *dst, const char *src, const lp_panel *p, const lp_factors *f) { \
        return transposes(dst, src, p, f, as_##to, both_as_##to);                                    \
    }
PIXELS(float32, 4, NULL)
PIXELS(float16, 2, both_as_float16)
PIXELS(bfloat16, 2, both_as_bfloat16)
TRANSPOSITION(float16)
TRANSPOSITION(bfloat16)

const lp_fused_fn lp_fused_avx2[LP_NUMBERS][LP_RESULTS] = {
    [LP_FLOAT32] = {[LP_FLOAT16] = float32_to_float16, [LP_BFLOAT16] = float32_to_bfloat16},
    [LP_UINT8] = {uint8_to_float32, uint8_to_float16, uint8_to_bfloat16},
};
#endif
