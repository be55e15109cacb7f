/* Portable kernels: the fallback everywhere and the reference for every other instruction set. */
#include "portable.h"

PLANES(transpose_8)
PLANES(transpose_16)
PLANES(transpose_32)
PLANES(transpose_64)

static void copy_lines(char *dst, const char *src, ptrdiff_t lines) { memcpy(dst, src, (size_t)lines * 64); }
static void no_fence(void) {}

static const lp_kernels table = {
    .isa = "scalar",
    .copy = copy_planes,
    .transpose = {transpose_8_planes, transpose_16_planes, transpose_32_planes, transpose_64_planes,
                  transpose_128_planes},
    .strided = {strided_8_planes, strided_16_planes, strided_32_planes, strided_64_planes, strided_128_planes},
    .strided_any = strided_any_planes,
    /* C has no stores past the caches. */
    .copy_run = copy_planes,
    .stream = copy_lines,
    .fence = no_fence,
};
const lp_kernels *const lp_kernels_scalar = &table;
