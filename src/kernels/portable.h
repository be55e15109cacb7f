/* Kernels in plain C. scalar.c compiles them as they are; the file of an instruction set compiles them once more with
 * its own flags, for everything that it does not do better. */
#ifndef LAYOUTPACK_PORTABLE_H
#define LAYOUTPACK_PORTABLE_H

#include <string.h>

#include "layoutpack/kernels.h"

/* n words of padding, side by side. */
static void fill_run(char* dst, ptrdiff_t n, const lp_panel* p) {
    ptrdiff_t bytes = n * p->width, step = LP_FILL_BYTES / p->width * p->width;
    if (step == 0) step = p->width;
    for (; bytes >= step; bytes -= step, dst += step) memcpy(dst, p->fill, (size_t)step);
    if (bytes > 0) memcpy(dst, p->fill, (size_t)bytes);
}

static void fill_words(char* dst, ptrdiff_t n, const lp_panel* p) {
    if (p->dst_cs == p->width) {
        fill_run(dst, n, p);
        return;
    }
    for (ptrdiff_t c = 0; c < n; c++) memcpy(dst + c * p->dst_cs, p->fill, (size_t)p->width);
}

/* Padding right of the valid columns, then whole rows below the valid ones. */
static void fill_rest(char* dst, const lp_panel* p) {
    if (p->valid_cols < p->cols)
        for (ptrdiff_t r = 0; r < p->valid_rows; r++)
            fill_words(dst + r * p->dst_rs + p->valid_cols * p->dst_cs, p->cols - p->valid_cols, p);
    for (ptrdiff_t r = p->valid_rows; r < p->rows; r++) fill_words(dst + r * p->dst_rs, p->cols, p);
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

static void strided_any(char* dst, const char* src, const lp_panel* p) {
    for (ptrdiff_t r = 0; r < p->valid_rows; r++)
        for (ptrdiff_t c = 0; c < p->valid_cols; c++)
            memcpy(dst + r * p->dst_rs + c * p->dst_cs, src + r * p->src_rs + c * p->src_cs, (size_t)p->width);
    fill_rest(dst, p);
}

/* A call of memcpy costs more than a short run is worth: the runs of one block (C0 words) get a constant size. */
static void copy(char* dst, const char* src, const lp_panel* p) {
    size_t run = (size_t)(p->valid_cols * p->width);
#define LP_COPY_ROWS(size) \
    for (ptrdiff_t r = 0; r < p->valid_rows; r++) memcpy(dst + r * p->dst_rs, src + r * p->src_rs, size)
    switch (run) {
        case 16:
            LP_COPY_ROWS(16);
            break;
        case 32:
            LP_COPY_ROWS(32);
            break;
        case 64:
            LP_COPY_ROWS(64);
            break;
        default:
            LP_COPY_ROWS(run);
            break;
    }
#undef LP_COPY_ROWS
    fill_rest(dst, p);
}

#endif
