/* Portable kernels: the fallback everywhere and the reference for every other instruction set. */
#include "portable.h"

static const lp_kernels table = {
    .isa = "scalar",
    .copy = copy,
    .transpose = {transpose_8, transpose_16, transpose_32, transpose_64, transpose_128},
    .strided = {strided_8, strided_16, strided_32, strided_64, strided_128},
    .strided_any = strided_any,
};
const lp_kernels* const lp_kernels_scalar = &table;
