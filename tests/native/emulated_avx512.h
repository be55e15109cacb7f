/* AVX-512 in plain C, for src/kernels/*avx512.c on processors without it: SIMDe, and what SIMDe lacks. A build with
 * LAYOUTPACK_EMULATE includes this ahead of them. */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <immintrin.h>
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <string.h>

#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512VL__ 1
#define __AVX512DQ__ 1
#define __AVX512VBMI__ 1

static inline void emulated_stream_si512(void *p, simde__m512i a) {
    if ((uintptr_t)p % sizeof a) __builtin_trap(); /* as the processor does */
    memcpy(p, &a, sizeof a);
}

static inline void emulated_mask_storeu_epi8(char *p, simde__mmask64 mask, simde__m512i a) {
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) memcpy(p + i, (const char *)&a + i, 1);
}

static inline simde__m512i emulated_shuffle_i64x2(simde__m512i a, simde__m512i b, int lanes) {
    simde__m512i to;
    for (int i = 0; i < 4; i++) {
        const char *from = (const char *)(i < 2 ? &a : &b);
        memcpy((char *)&to + 16 * i, from + 16 * (lanes >> 2 * i & 3), 16);
    }
    return to;
}

/* Conversions in two halves, by the instructions of AVX2 and F16C: `step` bytes of the source each. */
#define EMULATE(name, to_512, to_256, from_all, from_half, step)                \
    static inline to_512 emulated_##name(from_all a) {                          \
        to_512 result;                                                          \
        for (int i = 0; i < 2; i++) {                                           \
            from_half part;                                                     \
            memset(&part, 0, sizeof part);                                      \
            memcpy(&part, (const char *)&a + i * (step), step);                 \
            const to_256 half = _mm256_##name(part);                            \
            memcpy((char *)&result + i * (int)sizeof half, &half, sizeof half); \
        }                                                                       \
        return result;                                                          \
    }
EMULATE(cvtepu8_epi32, simde__m512i, __m256i, __m128i, __m128i, 8)
EMULATE(cvtepi8_epi32, simde__m512i, __m256i, __m128i, __m128i, 8)
EMULATE(cvtepu16_epi32, simde__m512i, __m256i, __m256i, __m128i, 16)
EMULATE(cvtepi16_epi32, simde__m512i, __m256i, __m256i, __m128i, 16)
EMULATE(cvtepi32_ps, simde__m512, __m256, simde__m512i, __m256i, 32)
EMULATE(cvtph_ps, simde__m512, __m256, __m256i, __m128i, 16)

static inline __m256i emulated_cvtps_ph(simde__m512 a) {
    __m256i to;
    for (int i = 0; i < 2; i++) {
        __m256 part;
        memcpy(&part, (const char *)&a + 32 * i, sizeof part);
        const __m128i half = _mm256_cvtps_ph(part, _MM_FROUND_TO_NEAREST_INT);
        memcpy((char *)&to + 16 * i, &half, sizeof half);
    }
    return to;
}

static inline __m256i emulated_cvtepi32_epi16(simde__m512i a) {
    __m256i to;
    for (int i = 0; i < 16; i++) memcpy((char *)&to + 2 * i, (const char *)&a + 4 * i, 2);
    return to;
}

#undef _mm512_shuffle_i64x2
#define _mm512_stream_si512 emulated_stream_si512
#define _mm512_mask_storeu_epi8 emulated_mask_storeu_epi8
#define _mm512_shuffle_i64x2 emulated_shuffle_i64x2
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtepi16_epi32 emulated_cvtepi16_epi32
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps
#define _mm512_cvtph_ps emulated_cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) emulated_cvtps_ph(a)
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
