/* Kernels in plain C. scalar.c compiles them as they are; the file of an instruction set compiles them once more with
 * its own flags, for everything that it does not do better. */
#ifndef LAYOUTPACK_PORTABLE_H
#define LAYOUTPACK_PORTABLE_H

#include <stdint.h>
#include <string.h>

#include "inline.h"
#include "layoutpack/kernels.h"

/* n words of padding, side by side. */
static void fill_run(char *dst, ptrdiff_t n, const lp_panel *p) {
    ptrdiff_t bytes = n * p->width, step = LP_FILL_BYTES / p->width * p->width;
    if (step == 0) step = p->width;
    for (; bytes >= step; bytes -= step, dst += step) memcpy(dst, p->fill, (size_t)step);
    if (bytes > 0) memcpy(dst, p->fill, (size_t)bytes);
}

static void fill_words(char *dst, ptrdiff_t n, const lp_panel *p) {
    if (p->dst_cs == p->width) {
        fill_run(dst, n, p);
        return;
    }
    for (ptrdiff_t c = 0; c < n; c++) memcpy(dst + c * p->dst_cs, p->fill, (size_t)p->width);
}

/* Padding below the valid rows. */
static void fill_rows(char *dst, const lp_panel *p) {
    for (ptrdiff_t r = p->valid_rows; r < p->rows; r++) fill_words(dst + r * p->dst_rs, p->cols, p);
}

/* Padding right of the valid columns, and below the valid rows. */
static void fill_rest(char *dst, const lp_panel *p) {
    if (p->valid_cols < p->cols)
        for (ptrdiff_t r = 0; r < p->valid_rows; r++)
            fill_words(dst + r * p->dst_rs + p->valid_cols * p->dst_cs, p->cols - p->valid_cols, p);
    fill_rows(dst, p);
}

/* Rows of `run` bytes, n <= run <= 2 n: two moves of the constant size n, which may overlap. Where `pad` is given, a
 * constant too, the whole row of so many bytes is filled first. */
static ALWAYS_INLINE void copy_runs(char *dst, const char *src, const lp_panel *p, size_t run, size_t n, size_t pad) {
    for (ptrdiff_t r = 0; r < p->valid_rows; r++, dst += p->dst_rs, src += p->src_rs) {
        char first[64], last[64];
        memcpy(first, src, n);
        memcpy(last, src + run - n, n);
        if (pad) memcpy(dst, p->fill, pad);
        memcpy(dst, first, n);
        memcpy(dst + run - n, last, n);
    }
}

/* More than 64 bytes. Not by memcpy, which costs a call, and on some processors falls to a tenth of its speed where dst
 * is a little ahead of src modulo 4096 (Zen 3 with glibc 2.36: 5 instead of 50 GB/s for 4.8 MB). */
static ALWAYS_INLINE void copy_long_run(char *restrict dst, const char *restrict src, size_t run) {
    for (size_t i = 0; i + 64 < run; i += 64) memcpy(dst + i, src + i, 64);
    memcpy(dst + run - 64, src + run - 64, 64);
}

static ALWAYS_INLINE void copy_any_run(char *dst, const char *src, const lp_panel *p, size_t run, size_t pad) {
    if (run > 64)
        for (ptrdiff_t r = 0; r < p->valid_rows; r++) copy_long_run(dst + r * p->dst_rs, src + r * p->src_rs, run);
    else if (run > 32)
        copy_runs(dst, src, p, run, 32, pad);
    else if (run > 16)
        copy_runs(dst, src, p, run, 16, pad);
    else if (run > 8)
        copy_runs(dst, src, p, run, 8, pad);
    else if (run > 4)
        copy_runs(dst, src, p, run, 4, pad);
    else if (run > 2)
        copy_runs(dst, src, p, run, 2, pad);
    else if (run)
        copy_runs(dst, src, p, run, 1, pad);
}

/* The rows [first, last) of a panel. */
static ALWAYS_INLINE lp_panel rows_of(const lp_panel *p, ptrdiff_t first, ptrdiff_t last) {
    lp_panel q = *p;
    q.rows = q.valid_rows = last - first;
    return q;
}

/* Rows of `run` bytes that lie side by side in the output, by one move of n > run bytes each, n a constant: a row mends
 * what the row before it spilled. A move reads n - run bytes too many, which is harmless in front of the last word;
 * other rows are moved as they are. Pixels of 3 bytes, the other way round: 0.3 ns each instead of 1. */
static ALWAYS_INLINE void copy_neighbours(char *dst, const char *src, const lp_panel *p, ptrdiff_t run, ptrdiff_t n) {
    ptrdiff_t rows = p->valid_rows, step = p->src_rs, spilled = n - run;
    ptrdiff_t first = 0, last = rows - (n + run - 1) / run + 1;
    if (step < 0)
        first = (spilled - step - 1) / -step;
    else if (rows - (spilled + step - 1) / step < last)
        last = rows - (spilled + step - 1) / step;
    if (last <= first) first = last = 0;
    lp_panel before = rows_of(p, 0, first), behind = rows_of(p, last, rows);
    copy_runs(dst, src, &before, (size_t)run, (size_t)n / 2, 0);
    for (ptrdiff_t r = first; r < last; r++) {
        char words[16];
        memcpy(words, src + r * step, (size_t)n);
        memcpy(dst + r * run, words, (size_t)n);
    }
    copy_runs(dst + last * run, src + last * step, &behind, (size_t)run, (size_t)n / 2, 0);
}

/* Whether a panel is of that kind, and is done. */
static ALWAYS_INLINE int copies_neighbours(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t run = p->valid_cols * p->width;
    if (p->dst_rs != run || p->valid_cols != p->cols || p->src_rs == 0 || p->src_rs > 4096 || p->src_rs < -4096)
        return 0;
    if (run == 3)
        copy_neighbours(dst, src, p, 3, 4);
    else if (run > 4 && run < 8)
        copy_neighbours(dst, src, p, run, 8);
    else if (run > 8 && run < 16)
        copy_neighbours(dst, src, p, run, 16);
    else
        return 0;
    return 1;
}

/* A call of memcpy costs more than a short run is worth, and so does a second visit for a short row's padding. */
static void copy(char *dst, const char *src, const lp_panel *p) {
    size_t run = (size_t)(p->valid_cols * p->width), row = (size_t)(p->cols * p->width);
    if (run && run < row && row == 64)
        copy_any_run(dst, src, p, run, 64);
    else if (run && run < row && row == 32)
        copy_any_run(dst, src, p, run, 32);
    else if (!copies_neighbours(dst, src, p)) {
        copy_any_run(dst, src, p, run, 0);
        fill_rest(dst, p);
        return;
    }
    fill_rows(dst, p);
}

#define WORD_BYTES 1
#define SUFFIX 8
#include "panel_template.h"
#define WORD_BYTES 2
#define SUFFIX 16
#include "panel_template.h"
#define WORD_BYTES 4
#define SUFFIX 32
#include "panel_template.h"
#define WORD_BYTES 8
#define SUFFIX 64
#include "panel_template.h"
#define WORD_BYTES 16
#define SUFFIX 128
#include "panel_template.h"

static void strided_any(char *dst, const char *src, const lp_panel *p) {
    for (ptrdiff_t r = 0; r < p->valid_rows; r++)
        for (ptrdiff_t c = 0; c < p->valid_cols; c++)
            memcpy(dst + r * p->dst_rs + c * p->dst_cs, src + r * p->src_rs + c * p->src_cs, (size_t)p->width);
    fill_rest(dst, p);
}

/* Rows of a constant size from `n` planes side by side, n a constant too. */
static ALWAYS_INLINE void copy_rows_of(char *dst, const char *src, const lp_panel *p, size_t row, int n) {
    ptrdiff_t dst_rs = p->dst_rs, src_rs = p->src_rs, dst_ps = p->dst_ps, src_ps = p->src_ps;
    for (ptrdiff_t r = p->rows; r > 0; r--, dst += dst_rs, src += src_rs)
        for (int k = 0; k < n; k++)
            for (size_t i = 0; i < row; i += 64) /* in one piece GCC would make a slow `rep movs` of it */
                memcpy(dst + k * dst_ps + i, src + k * src_ps + i, row < 64 ? row : 64);
}

/* Whole rows of a constant size: nothing but loads and stores, four planes at a time, which meet whole lines. */
static ALWAYS_INLINE void copy_whole_rows(char *dst, const char *src, const lp_panel *p, size_t row) {
    ptrdiff_t k = 0;
    for (; k + 4 <= p->planes; k += 4) copy_rows_of(dst + k * p->dst_ps, src + k * p->src_ps, p, row, 4);
    for (; k + 2 <= p->planes; k += 2) copy_rows_of(dst + k * p->dst_ps, src + k * p->src_ps, p, row, 2);
    for (; k < p->planes; k++) copy_rows_of(dst + k * p->dst_ps, src + k * p->src_ps, p, row, 1);
}

/* Whether a panel is of that kind, and is done. */
static ALWAYS_INLINE int copies_whole_rows(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t row = p->cols * p->width;
    if (p->valid_rows != p->rows || p->valid_cols != p->cols) return 0;
    if (row == 16)
        copy_whole_rows(dst, src, p, 16);
    else if (row == 32)
        copy_whole_rows(dst, src, p, 32);
    else if (row == 64)
        copy_whole_rows(dst, src, p, 64);
    else if (row == 128)
        copy_whole_rows(dst, src, p, 128);
    else if (row == 256)
        copy_whole_rows(dst, src, p, 256);
    else if (row == 512)
        copy_whole_rows(dst, src, p, 512);
    else
        return 0;
    return 1;
}

/* The kernels that the table names: a panel, plane by plane. */
#define PLANES(kernel)                                                                                 \
    static void kernel##_planes(char *dst, const char *src, const lp_panel *p) {                       \
        for (ptrdiff_t k = 0; k < p->planes; k++) kernel(dst + k * p->dst_ps, src + k * p->src_ps, p); \
    }
PLANES(strided_8)
PLANES(strided_16)
PLANES(strided_32)
PLANES(strided_64)
PLANES(strided_128)
PLANES(strided_any)
PLANES(transpose_128)

#endif
