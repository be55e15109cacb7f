/* Which instruction sets there are. A new one is a C file, a row here and a line in CMakeLists.txt. */
#include <string.h>

#include "layoutpack/kernels.h"

#if defined __x86_64__ && defined __GNUC__
#include <cpuid.h>

/* Half-precision conversions, which clang 14 does not know by name. */
static int has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

/* Whether this processor and its operating system run the instruction set. */
static int runs(const char *isa) {
#if defined __x86_64__ && defined __GNUC__
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (!strcmp(isa, "avx2")) return avx2;
#ifdef LAYOUTPACK_EMULATE
    if (!strcmp(isa, "avx512")) return avx2;
#endif
    if (!strcmp(isa, "avx512"))
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vbmi");
#endif
    return !strcmp(isa, "scalar");
}

const lp_kernels *lp_kernels_built(int i) {
    const lp_kernels *rows[] = {lp_kernels_avx512, lp_kernels_avx2, lp_kernels_scalar};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k] && i-- == 0) return rows[k];
    return NULL;
}

int lp_kernels_available(const lp_kernels *kernels) { return runs(kernels->isa); }
