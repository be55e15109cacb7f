/* Conversions of numbers with AVX-512, sixteen at a time. As avx512.c checked by emulation, not timed; llvm-mca 19
 * counts for sixteen numbers, AVX-512 / AVX2, on Zen 4 and Ice Lake: float32 to float16 1.4 / 2.1, 1.8 / 2.1; to
 * bfloat16 3.9 / 5.7, 3.8 / 7.4; uint8 to float16 2.5 / 4.1, 2.4 / 4.1; to float32 1.9 / 3.1, 1.6 / 2.1 cycles. */
#include "layoutpack/kernels.h"

#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512VL__ && defined __AVX512DQ__ && \
    defined __AVX512VBMI__
#include <immintrin.h>

#define TABLE lp_convert_avx512
#define STEP 16
#define REAL __m512

static inline __m128i load_16(const char *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline __m256i load_32(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void store_32(char *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

static inline __m512 load_float32(const char *p) { return _mm512_loadu_ps(p); }
static inline __m512 load_float16(const char *p) { return _mm512_cvtph_ps(load_32(p)); }
static inline __m512 load_bfloat16(const char *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_32(p)), 16));
}
static inline __m512 load_uint8(const char *p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_16(p))); }
static inline __m512 load_int8(const char *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(p))); }
static inline __m512 load_uint16(const char *p) { return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(load_32(p))); }
static inline __m512 load_int16(const char *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(load_32(p))); }

static inline void store_float32(char *p, __m512 x) { _mm512_storeu_ps(p, x); }
static inline void store_float16(char *p, __m512 x) { store_32(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }

/* As in numbers_avx2.h. */
static inline void store_bfloat16(char *p, __m512 x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16), even = _mm512_set1_epi32(0x7fff);
    __m512i half = _mm512_add_epi32(even, _mm512_and_si512(high, _mm512_set1_epi32(1)));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)); /* a quiet NaN */
    store_32(p, _mm512_cvtepi32_epi16(rounded));
}

static inline __m512 multiply_add(__m512 x, __m512 a, __m512 b) { return _mm512_fmadd_ps(x, a, b); }
static inline __m512 spread(const float *p) { return _mm512_set1_ps(*p); }
static inline __m512 several(const float *p) { return _mm512_loadu_ps(p); }

#include "convert_template.h"
#endif
