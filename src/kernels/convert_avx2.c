/* Conversions of numbers with AVX2, FMA and F16C. */
#include "layoutpack/kernels.h"

#if defined __AVX2__ && defined __FMA__ && defined __F16C__
#include <immintrin.h>

#define TABLE lp_convert_avx2
#define STEP 8
#define REAL __m256

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
static inline void store_float16(char *p, __m256 x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Round to nearest even, as round_off of convert_scalar.c; a NaN keeps its upper bits and becomes a quiet one. */
static inline void store_bfloat16(char *p, __m256 x) {
    __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16), even = _mm256_set1_epi32(1);
    __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, even));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
}

static inline __m256 multiply_add(__m256 x, __m256 a, __m256 b) { return _mm256_fmadd_ps(x, a, b); }
static inline __m256 spread(const float *p) { return _mm256_set1_ps(*p); }
static inline __m256 several(const float *p) { return _mm256_loadu_ps(p); }

#include "convert_template.h"
#endif
