/* Conversions of numbers with AVX2, FMA and F16C. */
#include "layoutpack/kernels.h"

#if defined __AVX2__ && defined __FMA__ && defined __F16C__
#include "numbers_avx2.h"

#define TABLE lp_convert_avx2
#define STEP 8
#define REAL __m256

#include "convert_template.h"
#endif
