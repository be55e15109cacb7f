"""The C contracts of include/layoutpack, as Cython sees them."""

cdef extern from "layoutpack/kernels.h" nogil:
    const int LP_FILL_BYTES
    const int LP_WORDS

    ctypedef struct lp_panel:
        ptrdiff_t planes, rows, cols
        ptrdiff_t valid_rows, valid_cols
        ptrdiff_t src_ps, src_rs, src_cs
        ptrdiff_t dst_ps, dst_rs, dst_cs
        ptrdiff_t width
        const char *fill
        ptrdiff_t before, after, ahead

    ctypedef struct lp_lines:
        ptrdiff_t lines, n
        ptrdiff_t src_ls, dst_ls
        const float *scale
        const float *bias
        ptrdiff_t factor_ls, factor_es

    ctypedef void (*lp_panel_fn)(char *dst, const char *src, const lp_panel *p) noexcept nogil

    ctypedef void (*lp_convert_fn)(char *dst, const char *src, const lp_lines *p) noexcept nogil

    ctypedef struct lp_factors:
        const float *scale
        const float *bias
        ptrdiff_t rs, cs

    ctypedef int (*lp_fused_fn)(char *dst, const char *src, const lp_panel *p, const lp_factors *f) noexcept nogil

    ctypedef int (*lp_pixels_fn)(char *dst, const char *src, const lp_panel *p) noexcept nogil

    ctypedef struct lp_kernels:
        const char *isa
        lp_panel_fn copy
        lp_panel_fn transpose[5]
        lp_panel_fn strided[5]
        lp_panel_fn strided_any
        lp_panel_fn copy_run
        void (*stream)(char *dst, const char *src, ptrdiff_t lines) noexcept nogil
        void (*fence)() noexcept nogil
        const lp_convert_fn (*convert)[3]
        const lp_fused_fn (*fused)[3]
        const lp_pixels_fn *pixels_run

    void lp_prefetch(const char *src, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t size)
    const lp_kernels *lp_kernels_built(int i)
    int lp_kernels_available(const lp_kernels *kernels)

cdef extern from "layoutpack/plan.h" nogil:
    const int LP_MAX_LOOPS

    ctypedef struct lp_loop:
        ptrdiff_t extent
        ptrdiff_t valid
        ptrdiff_t src_stride
        ptrdiff_t dst_stride
        ptrdiff_t factor_stride

    ctypedef struct lp_box:
        ptrdiff_t src_offset
        ptrdiff_t dst_offset
        ptrdiff_t factor_offset
        const lp_loop *loops
        const int *nest
        int n_nest
        int plane, row, col
        ptrdiff_t row_tile, col_tile
        ptrdiff_t width
        lp_panel_fn kernel
        ptrdiff_t scratch_rows
        int scratch_run
        ptrdiff_t scratch_cols
        ptrdiff_t ahead
        int gather, scatter
        lp_panel_fn line
        ptrdiff_t plane_tile
        int streams
        lp_convert_fn convert
        lp_fused_fn fused
        lp_pixels_fn pixels
        int converts, by_row
        ptrdiff_t src_width
        ptrdiff_t factor_rs, factor_cs
        const char *fill

    ctypedef struct lp_group:
        ptrdiff_t src_offset
        ptrdiff_t dst_offset
        ptrdiff_t factor_offset
        const lp_loop *loops
        const ptrdiff_t *steps
        int n_loops
        int n_boxes
        int streams
        const lp_box *boxes
        ptrdiff_t chunks
