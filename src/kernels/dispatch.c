/* Which instruction sets there are. A new one is a C file, a row here and a line in CMakeLists.txt. */
#include "layoutpack/kernels.h"

const lp_kernels* const lp_kernels_built[] = {&lp_kernels_scalar, NULL};

int lp_kernels_available(const lp_kernels* kernels) { return kernels == &lp_kernels_scalar; }
