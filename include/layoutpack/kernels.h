/* The contract between the engine and the micro-kernels: a panel of words.
 *
 * A panel is `planes` matrices of `rows` x `cols` words, all alike. Word (r, c) is written to dst + r * dst_rs + c *
 * dst_cs; where r < valid_rows and c < valid_cols it is the word at src + r * src_rs + c * src_cs, elsewhere it is the
 * fill word. A kernel writes nothing else, accepts every alignment, and cannot fail. It may read up to 15 bytes
 * behind a word where they lie before the last word and on pages of memory that hold words, and makes nothing of
 * them. */
#ifndef LAYOUTPACK_KERNELS_H
#define LAYOUTPACK_KERNELS_H

#include <stddef.h>

/* Readable bytes behind lp_panel.fill: the fill word repeated. Words longer than this are stored once. */
enum { LP_FILL_BYTES = 64 };

typedef struct {
    ptrdiff_t planes, rows, cols;
    ptrdiff_t valid_rows, valid_cols;
    ptrdiff_t src_ps, src_rs, src_cs; /* plane, row and column stride, signed bytes */
    ptrdiff_t dst_ps, dst_rs, dst_cs;
    ptrdiff_t width; /* bytes of a word */
    const char *fill;
    ptrdiff_t before, after; /* copy_run: rows of the same runs in front of the panel's and behind */
    ptrdiff_t ahead; /* transpose: where not 0, bytes from a plane's first word to the next call's, to be prefetched */
} lp_panel;

typedef void (*lp_panel_fn)(char *dst, const char *src, const lp_panel *p);

/* Ask for `n` stretches of `size` bytes, `stride` bytes apart. A hint: it never faults, wherever it points. */
static inline void lp_prefetch(const char *src, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t size) {
#ifdef __GNUC__
    if (stride > 0 && stride < 64) size += (n - 1) * stride, n = n > 0; /* one stretch */
    for (; n > 0; n--, src += stride)
        for (ptrdiff_t at = 0; at < size; at += 64) __builtin_prefetch(src + at);
#else
    (void)src, (void)stride, (void)n, (void)size;
#endif
}

/* Types of numbers that kernels convert; the first LP_RESULTS of them are those they convert to. */
enum { LP_FLOAT32, LP_FLOAT16, LP_BFLOAT16, LP_UINT8, LP_INT8, LP_UINT16, LP_INT16, LP_NUMBERS, LP_RESULTS = 3 };

/* `lines` lines of `n` numbers, neighbours on both sides. Number i of line k becomes x * scale[j] + bias[j] with j =
 * k * factor_ls + i * factor_es, in float32 with one rounding, and is then rounded to the result's type; where `scale`
 * is NULL it is only converted. Rounding is to nearest even; a NaN becomes a quiet one with the upper bits of its
 * payload. */
typedef struct {
    ptrdiff_t lines, n;
    ptrdiff_t src_ls, dst_ls; /* from line to line, signed bytes */
    const float *scale, *bias;
    ptrdiff_t factor_ls, factor_es; /* from line to line and from number to number, in floats */
} lp_lines;

typedef void (*lp_convert_fn)(char *dst, const char *src, const lp_lines *p);

/* Scale and bias as in lp_lines, with steps from row to row and from column to column of a panel, in floats. */
typedef struct {
    const float *scale, *bias;
    ptrdiff_t rs, cs;
} lp_factors;

/* A panel, of one plane, whose numbers are converted while they move; `width` is that of the result. Returns 0, and has
 * done nothing, where another way is better. */
typedef int (*lp_fused_fn)(char *dst, const char *src, const lp_panel *p, const lp_factors *f);

/* transpose past the caches without scratch, of planes to pixels of a few words that lie side by side in the output, or
 * back. Returns 0, and has done nothing, where another way is better. */
typedef int (*lp_pixels_fn)(char *dst, const char *src, const lp_panel *p);

/* log2 of the word sizes that have kernels of their own: 1, 2, 4, 8 and 16 bytes. */
enum { LP_WORDS = 5 };

/* The kernels of one instruction set. */
typedef struct {
    const char *isa;
    lp_panel_fn copy;                /* src_cs == dst_cs == width, any width: rows of contiguous bytes */
    lp_panel_fn transpose[LP_WORDS]; /* src_rs == dst_cs == width: a matrix transposition */
    lp_panel_fn strided[LP_WORDS];   /* any strides */
    lp_panel_fn strided_any;         /* any strides, any width */
    /* copy past the caches, for rows of 16, 32 or 64 bytes that lie side by side in the output: each plane is a piece
     * of a run, of 4 KiB at most. Pieces meet where cache lines do: the bytes of the first line that belong to rows
     * before are written too, so these fill a line where there are any, and those of the last line are left to the rows
     * behind. */
    lp_panel_fn copy_run;
    /* Store whole lines of 64 bytes past the caches; dst lies on a line. */
    void (*stream)(char *dst, const char *src, ptrdiff_t lines);
    void (*fence)(void);
    const lp_convert_fn (*convert)[LP_RESULTS]; /* by the types of source and result */
    const lp_fused_fn (*fused)[LP_RESULTS];     /* the same; NULL where there is none */
    const lp_pixels_fn *pixels_run;             /* by log2 of the word size; NULL where there is none */
} lp_kernels;

/* One file each; NULL where the compiler does not know the instruction set. */
extern const lp_kernels *const lp_kernels_avx512;
extern const lp_kernels *const lp_kernels_avx2;
extern const lp_kernels *const lp_kernels_scalar;

/* Their converters. */
extern const lp_convert_fn lp_convert_avx512[LP_NUMBERS][LP_RESULTS];
extern const lp_convert_fn lp_convert_avx2[LP_NUMBERS][LP_RESULTS];
extern const lp_convert_fn lp_convert_scalar[LP_NUMBERS][LP_RESULTS];

/* Their converters of panels, in registers. */
extern const lp_fused_fn lp_fused_avx2[LP_NUMBERS][LP_RESULTS];

/* Their pixels past the caches. */
extern const lp_pixels_fn lp_pixels_avx2[LP_WORDS];

/* The i-th instruction set of this build, best first; NULL behind the last. */
const lp_kernels *lp_kernels_built(int i);

/* Whether this processor and its operating system run the instruction set. */
int lp_kernels_available(const lp_kernels *kernels);

#endif
