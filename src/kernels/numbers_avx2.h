/* Eight numbers from memory to float32 and back, at any alignment, with AVX2, FMA and F16C. */
#ifndef LAYOUTPACK_NUMBERS_AVX2_H
#define LAYOUTPACK_NUMBERS_AVX2_H

#include <immintrin.h>

static inline __m128i low_8(const char *p) { return _mm_loadl_epi64((const __m128i *)p); }
static inline __m128i load_8(const char *p) { return _mm_loadu_si128((const __m128i *)p); }

static inline __m256 load_float32(const char *p) { return _mm256_loadu_ps((const float *)p); }
static inline __m256 load_float16(const char *p) { return _mm256_cvtph_ps(load_8(p)); }
static inline __m256 load_bfloat16(const char *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_8(p)), 16));
}
static inline __m256 load_uint8(const char *p) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low_8(p))); }
static inline __m256 load_int8(const char *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low_8(p))); }
static inline __m256 load_uint16(const char *p) { return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(load_8(p))); }
static inline __m256 load_int16(const char *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(load_8(p))); }

static inline void store_float32(char *p, __m256 x) { _mm256_storeu_ps((float *)p, x); }

/* Eight numbers of two bytes. */
static inline __m128i as_float16(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }

/* The upper halves of words, rounded to nearest even, as round_off of convert_scalar.c. */
static inline __m256i rounded_to_upper(__m256i bits) {
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd)), 16);
}

/* A NaN keeps its upper bits and becomes a quiet one. */
static inline __m128i as_bfloat16(__m256 x) {
    __m256i bits = _mm256_castps_si256(x),
            quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i rounded = _mm256_blendv_epi8(rounded_to_upper(bits), quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
}

/* Twice eight of them, one in each lane. */
static inline __m256i lanes_of(__m128i low, __m128i high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
static inline __m256i both_as_float16(__m256 x, __m256 y) { return lanes_of(as_float16(x), as_float16(y)); }

/* Numbers that are no NaN take 13 instructions, not 21: NC1HWC0 of 8 x 64 x 56 x 56 266 us instead of 317. */
static inline __m256i both_as_bfloat16(__m256 x, __m256 y) {
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_UNORD_Q))) return lanes_of(as_bfloat16(x), as_bfloat16(y));
    __m256i a = rounded_to_upper(_mm256_castps_si256(x)), b = rounded_to_upper(_mm256_castps_si256(y));
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

static inline void store_float16(char *p, __m256 x) { _mm_storeu_si128((__m128i *)p, as_float16(x)); }
static inline void store_bfloat16(char *p, __m256 x) { _mm_storeu_si128((__m128i *)p, as_bfloat16(x)); }

static inline __m256 multiply_add(__m256 x, __m256 a, __m256 b) { return _mm256_fmadd_ps(x, a, b); }
static inline __m256 spread(const float *p) { return _mm256_set1_ps(*p); }
static inline __m256 several(const float *p) { return _mm256_loadu_ps(p); }

#endif
