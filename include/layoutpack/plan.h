/* What a plan looks like to the engine: groups of boxes, each box a nest of loops around one kind of panel.
 *
 * Strides and offsets are signed bytes unless it says otherwise. Nothing here owns memory and nothing below the plan
 * can fail. */
#ifndef LAYOUTPACK_PLAN_H
#define LAYOUTPACK_PLAN_H

#include <stddef.h>

#include "layoutpack/kernels.h"

/* More loops than any two arrays of 64 axes can need; the planner checks it. */
enum { LP_MAX_LOOPS = 160 };

typedef struct {
    ptrdiff_t extent;
    ptrdiff_t valid; /* iterations that have a source; the others are padding */
    ptrdiff_t src_stride;
    ptrdiff_t dst_stride;
    ptrdiff_t factor_stride; /* of scale and bias, in floats */
} lp_loop;

/* A rectangle of the output with one affine map to the input. */
typedef struct {
    ptrdiff_t src_offset;
    ptrdiff_t dst_offset;
    ptrdiff_t factor_offset; /* floats */
    const lp_loop *loops;    /* the loops common to the group first */
    const int *nest;         /* the loops around the panel, outermost first */
    int n_nest;
    int plane, row, col; /* the loops of the panel, -1: none */
    ptrdiff_t row_tile, col_tile;
    ptrdiff_t width; /* bytes of one word */
    lp_panel_fn kernel;
    /* Panels that go through scratch, and from there past the caches: so many rows at a time, 0: none. */
    ptrdiff_t scratch_rows;
    int scratch_run;        /* the rows lie side by side and become one run; otherwise each is a run of its own */
    ptrdiff_t scratch_cols; /* columns that one call of the kernel brings into scratch */
    ptrdiff_t ahead;        /* bytes of source from what is converted to what is prefetched, 0: no prefetching */
    /* Tiles that go through scratch, since their lines would meet in a few sets of the cache, on the side of the source
     * and on that of the output. */
    int gather, scatter;
    lp_panel_fn line;      /* gathers rows that are no neighbours in the source */
    ptrdiff_t plane_tile;  /* planes at a time around the whole nest, 0: all in each panel */
    int streams;           /* scattered lines are stored past the caches */
    lp_pixels_fn pixels;   /* NULL: none for these words */
    lp_convert_fn convert; /* NULL: bytes are moved, nothing is computed */
    lp_fused_fn fused;     /* NULL: none for these types */
    int converts;          /* when numbers are converted: the engine's BEFORE, AFTER or ALONE */
    int by_row;            /* the lines converted before run along the rows */
    ptrdiff_t src_width;   /* bytes of a number of the source */
    ptrdiff_t factor_rs, factor_cs;
    const char *fill; /* one word of padding, LP_FILL_BYTES readable */
} lp_box;

/* Boxes that share their first loops. A chunk of work is a range of the shared loops, with all boxes. */
typedef struct {
    ptrdiff_t src_offset;
    ptrdiff_t dst_offset;
    ptrdiff_t factor_offset; /* floats */
    const lp_loop *loops;
    const ptrdiff_t *steps; /* iterations of each shared loop in one chunk */
    int n_loops;
    int n_boxes;
    int streams; /* some box stores past the caches */
    const lp_box *boxes;
    ptrdiff_t chunks;
} lp_group;

#endif
