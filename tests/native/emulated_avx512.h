/* AVX-512 in plain C, for src/kernels/avx512.c on processors without it: SIMDe, and what SIMDe lacks. A build with
 * LAYOUTPACK_EMULATE includes this ahead of that file. */
#define SIMDE_ENABLE_NATIVE_ALIASES
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

#undef _mm512_shuffle_i64x2
#define _mm512_stream_si512 emulated_stream_si512
#define _mm512_mask_storeu_epi8 emulated_mask_storeu_epi8
#define _mm512_shuffle_i64x2 emulated_shuffle_i64x2
