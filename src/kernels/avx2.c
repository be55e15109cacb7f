/* AVX2. Transpositions by lane networks; everything else is the portable C, compiled for AVX2. */
#include "layoutpack/kernels.h"

#ifdef __AVX2__
#include <immintrin.h>
#include <stdint.h>

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

/* Whether 16 bytes from here lie on one page of memory: then all can be read if the first can. */
static inline int stays_on_page(const char *p) { return ((uintptr_t)p & 4095) <= 4096 - 16; }

/* Sixteen bytes in both lanes. */
static inline __m256i both(const signed char *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
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

/* Words of 8 bytes fill a pixel quickly: the portable code is as good. */
static inline int pixels_64(char *dst, const char *src, const lp_panel *p) {
    if (!pads_64(p)) return 0;
    transpose_64(dst, src, p);
    return 1;
}

/* Padded rows of up to 16 valid bytes: one load, one blend and one or two stores a row. The load runs past the valid
 * bytes, into the next row; where there is none, the portable code goes on. */
static void copy_lanes(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t run = p->valid_cols * p->width, row = p->cols * p->width, r = 0;
    if (run > 0 && run <= 16 && run < row && (row == 32 || row == 64) && p->src_rs > 0) {
        ptrdiff_t safe = ((p->valid_rows - 1) * p->src_rs + run - 16) / p->src_rs;
        if (safe > p->valid_rows) safe = p->valid_rows;
        signed char bytes[16];
        for (int i = 0; i < 16; i++) bytes[i] = i < run ? -1 : 0;
        __m128i mask = _mm_loadu_si128((const __m128i *)bytes);
        __m256i fill = load_32(p->fill), fill_high = load_32(p->fill + 32);
        __m128i fill_low = _mm256_castsi256_si128(fill);
        for (; r < safe; r++) {
            const char *s = src + r * p->src_rs;
            char whole[16];
            if (!stays_on_page(s)) s = memcpy(whole, s, (size_t)run);
            __m128i words = _mm_loadu_si128((const __m128i *)s);
            char *d = dst + r * p->dst_rs;
            store_32(d, _mm256_inserti128_si256(fill, _mm_blendv_epi8(fill_low, words, mask), 0));
            if (row == 64) store_32(d + 32, fill_high);
        }
    }
    lp_panel rest = *p;
    rest.rows -= r;
    rest.valid_rows -= r;
    copy(dst + r * p->dst_rs, src + r * p->src_rs, &rest);
}
PLANES(copy_lanes)

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

/* The widest network that the panel has room for. What is smaller, and pixels of 3 or 4 words, which the compiler turns
 * into shuffles by itself, go to the portable kernels. */
#define TRANSPOSE(bits)                                                                                         \
    static void transpose_lanes_##bits(char *dst, const char *src, const lp_panel *p) {                         \
        const ptrdiff_t lane = 128 / bits, pixel = p->valid_rows * (bits / 8);                                  \
        int narrow = p->valid_rows < lane && (p->src_cs < pixel || (p->src_cs == pixel && p->valid_rows <= 4)); \
        if (pixels_##bits(dst, src, p)) return;                                                                 \
        if (p->cols < lane || narrow || p->valid_rows == 0)                                                     \
            transpose_##bits(dst, src, p);                                                                      \
        else if (p->cols < 2 * lane)                                                                            \
            panel_##bits##x1(dst, src, p);                                                                      \
        else                                                                                                    \
            panel_##bits##x2(dst, src, p);                                                                      \
    }                                                                                                           \
    PLANES(transpose_lanes_##bits)
TRANSPOSE(8)
TRANSPOSE(16)
TRANSPOSE(32)
TRANSPOSE(64)

/* Rows of whole lines' halves past the caches, 16 bytes at a time where no more is aligned. */
static void copy_stream(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t run = p->valid_cols * p->width;
    int aligned = !(((uintptr_t)dst | (uintptr_t)p->dst_rs | (uintptr_t)run) & 15) && run == p->cols * p->width;
    if (aligned && run <= 256 && !(((uintptr_t)dst | (uintptr_t)p->dst_rs | (uintptr_t)run) & 31)) {
        for (ptrdiff_t r = 0; r < p->valid_rows; r++)
            for (ptrdiff_t i = 0; i < run; i += 32) stream_2(dst + r * p->dst_rs + i, load_32(src + r * p->src_rs + i));
    } else if (aligned && run <= 256) {
        for (ptrdiff_t r = 0; r < p->valid_rows; r++)
            for (ptrdiff_t i = 0; i < run; i += 16)
                stream_1(dst + r * p->dst_rs + i, _mm_loadu_si128((const __m128i *)(src + r * p->src_rs + i)));
    } else {
        copy_lanes(dst, src, p);
        return;
    }
    fill_rows(dst, p);
}
PLANES(copy_stream)

static void stream_lines(char *dst, const char *src, ptrdiff_t lines) {
    for (; lines > 0; lines--, dst += 64, src += 64) {
        stream_2(dst, load_32(src));
        stream_2(dst + 32, load_32(src + 32));
    }
}

static void fence(void) { _mm_sfence(); }

static const lp_kernels table = {
    .isa = "avx2",
    .copy = copy_lanes_planes,
    .transpose = {transpose_lanes_8_planes, transpose_lanes_16_planes, transpose_lanes_32_planes,
                  transpose_lanes_64_planes, transpose_128_planes},
    .strided = {strided_8_planes, strided_16_planes, strided_32_planes, strided_64_planes, strided_128_planes},
    .strided_any = strided_any_planes,
    .copy_stream = copy_stream_planes,
    .stream = stream_lines,
    .fence = fence,
};
const lp_kernels *const lp_kernels_avx2 = &table;
#else
const lp_kernels *const lp_kernels_avx2 = NULL;
#endif
