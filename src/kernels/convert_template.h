/* Converting lines of numbers, for a file that has told, before this is included, how:
 *
 * STEP         numbers at a time
 * REAL         so many float32
 * load_FROM, store_TO   REAL from and to memory, any alignment; NaN goes to the same NaN in every file
 * multiply_add(x, a, b) x * a + b, rounded once
 * spread(p)    the float at p, STEP times; several(p): STEP floats
 *
 * and defines TABLE, the converters by type of source and result. */

#include <stddef.h>
#include <string.h>

#include "layoutpack/kernels.h"

typedef REAL (*load_fn)(const char *);
typedef void (*store_fn)(char *, REAL);

/* Numbers whose factors are brought together where they are no neighbours. */
enum { FACTORS = 256 };

/* A line of up to so many numbers that goes on where the last one ended, such as a pixel, is taken as one with it. */
enum { PERIOD = 32 };

/* How many factors a run of numbers has: none, one, or one for each number. */
enum { NONE, ONE, EACH };

/* `n` numbers; with one factor each, those go on from the beginning after `period` numbers. Everything but the
 * pointers, n and period is a constant where this is called. */
static inline __attribute__((always_inline)) void convert_run(char *dst, const char *src, ptrdiff_t n, int factors,
                                                              const float *scale, const float *bias, ptrdiff_t period,
                                                              size_t from, size_t to, load_fn load, store_fn store) {
    const ptrdiff_t size_in = (ptrdiff_t)from, size_out = (ptrdiff_t)to;
    ptrdiff_t i = 0, k = 0;
    REAL a, b;
    if (factors == ONE) a = spread(scale), b = spread(bias);
    for (; i + STEP <= n; i += STEP) {
        REAL x = load(src + i * size_in);
        if (factors == EACH) {
            a = several(scale + k);
            b = several(bias + k);
            k += STEP;
            if (k == period) k = 0;
        }
        store(dst + i * size_out, factors ? multiply_add(x, a, b) : x);
    }
    if (i >= n) return;
    char rest[STEP * 4] = {0}, done[STEP * 4]; /* the same instructions for the last few: the same results */
    size_t left = (size_t)(n - i);
    memcpy(rest, src + i * size_in, left * from);
    REAL x = load(rest);
    if (factors == EACH) {
        float last[2][STEP] = {{0}};
        memcpy(last[0], scale + k, left * sizeof(float));
        memcpy(last[1], bias + k, left * sizeof(float));
        a = several(last[0]);
        b = several(last[1]);
    }
    store(done, factors ? multiply_add(x, a, b) : x);
    memcpy(dst + i * size_out, done, left * to);
}

/* `n` factors that lie `step` apart; after `period` of them they begin anew. */
static void gather_factors(float *to, const float *from, ptrdiff_t n, ptrdiff_t step, ptrdiff_t period) {
    for (ptrdiff_t i = 0, k = 0; i < n; i++) {
        to[i] = from[k * step];
        if (++k == period) k = 0;
    }
}

static inline __attribute__((always_inline)) void convert_lines(char *dst, const char *src, const lp_lines *p,
                                                                size_t from, size_t to, load_fn load, store_fn store) {
    const ptrdiff_t size_in = (ptrdiff_t)from, size_out = (ptrdiff_t)to;
    ptrdiff_t lines = p->lines, n = p->n, step = p->factor_es, period = 0, count;
    float near[2][PERIOD * STEP > FACTORS ? PERIOD * STEP : FACTORS];
    const float *scale = p->scale, *bias = p->bias;
    int factors = !scale ? NONE : p->factor_es == 0 ? ONE : EACH;
    if (p->src_ls == n * size_in && p->dst_ls == n * size_out && p->factor_ls == 0) {
        if (factors == EACH && n <= PERIOD) {
            period = n * STEP, step = 1;
            gather_factors(near[0], scale, period, p->factor_es, n);
            gather_factors(near[1], bias, period, p->factor_es, n);
            scale = near[0], bias = near[1];
        }
        if (factors != EACH || period) n *= lines, lines = 1;
    }
    for (ptrdiff_t k = 0; k < lines; k++, dst += p->dst_ls, src += p->src_ls) {
        ptrdiff_t at = k * p->factor_ls;
        if (factors == NONE)
            convert_run(dst, src, n, NONE, NULL, NULL, 0, from, to, load, store);
        else if (factors == ONE)
            convert_run(dst, src, n, ONE, scale + at, bias + at, 0, from, to, load, store);
        else
            for (ptrdiff_t i = 0; i < n; i += count, at += count * step) {
                const float *a = scale + at, *b = bias + at;
                count = step == 1 || n - i < FACTORS ? n - i : FACTORS;
                if (step != 1) {
                    gather_factors(near[0], a, count, step, count);
                    gather_factors(near[1], b, count, step, count);
                    a = near[0], b = near[1];
                }
                convert_run(dst + i * size_out, src + i * size_in, count, EACH, a, b, period, from, to, load, store);
            }
    }
}

#define CONVERT(from, from_size, to, to_size)                                    \
    static void from##_to_##to(char *dst, const char *src, const lp_lines *p) {  \
        convert_lines(dst, src, p, from_size, to_size, load_##from, store_##to); \
    }
#define CONVERT_ALL(from, from_size) \
    CONVERT(from, from_size, float32, 4) CONVERT(from, from_size, float16, 2) CONVERT(from, from_size, bfloat16, 2)
CONVERT_ALL(float32, 4)
CONVERT_ALL(float16, 2)
CONVERT_ALL(bfloat16, 2)
CONVERT_ALL(uint8, 1)
CONVERT_ALL(int8, 1)
CONVERT_ALL(uint16, 2)
CONVERT_ALL(int16, 2)

#define ROW(from) {from##_to_float32, from##_to_float16, from##_to_bfloat16}
const lp_convert_fn TABLE[LP_NUMBERS][LP_RESULTS] = {
    [LP_FLOAT32] = ROW(float32), [LP_FLOAT16] = ROW(float16), [LP_BFLOAT16] = ROW(bfloat16), [LP_UINT8] = ROW(uint8),
    [LP_INT8] = ROW(int8),       [LP_UINT16] = ROW(uint16),   [LP_INT16] = ROW(int16),
};
