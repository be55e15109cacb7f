/* Portable kernels: the fallback everywhere and the reference for every other instruction set. */
#include "portable.h"

static void copy_planes(char *dst, const char *src, const lp_panel *p) {
    if (copies_whole_rows(dst, src, p)) return;
    for (ptrdiff_t k = 0; k < p->planes; k++) copy(dst + k * p->dst_ps, src + k * p->src_ps, p);
}

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
    .convert = lp_convert_scalar,
};
const lp_kernels *const lp_kernels_scalar = &table;
