/* The portable kernels for one word size. Define WORD_BYTES and SUFFIX, then include; portable.h does so for each size.
 *
 * memcpy of a constant size is how C reads a word at any address: it compiles to one load or store. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)

#if WORD_BYTES == 1
typedef uint8_t LP_NAME(word); /* of a struct of bytes GCC makes no vectors */
#elif WORD_BYTES == 2
typedef uint16_t LP_NAME(word);
#elif WORD_BYTES == 4
typedef uint32_t LP_NAME(word);
#elif WORD_BYTES == 8
typedef uint64_t LP_NAME(word);
#else
typedef struct {
    unsigned char bytes[WORD_BYTES];
} LP_NAME(word);
#endif

static ALWAYS_INLINE void LP_NAME(move)(char *dst, const char *src) {
    LP_NAME(word) w;
    memcpy(&w, src, sizeof w);
    memcpy(dst, &w, sizeof w);
}

/* `n` words side by side from words `step` bytes apart. With a constant step the compiler makes shuffles of it. */
static ALWAYS_INLINE void LP_NAME(line)(char *restrict dst, const char *restrict src, ptrdiff_t n, ptrdiff_t step) {
    for (ptrdiff_t c = 0; c < n; c++) LP_NAME(move)(dst + c * WORD_BYTES, src + c * step);
}

static void LP_NAME(reverse)(char *restrict dst, const char *restrict src, ptrdiff_t n) {
    LP_NAME(line)(dst, src, n, -WORD_BYTES);
}

static void LP_NAME(every_second)(char *restrict dst, const char *restrict src, ptrdiff_t n) {
    LP_NAME(line)(dst, src, n, 2 * WORD_BYTES);
}

static void LP_NAME(every_third)(char *restrict dst, const char *restrict src, ptrdiff_t n) {
    LP_NAME(line)(dst, src, n, 3 * WORD_BYTES);
}

static void LP_NAME(every_fourth)(char *restrict dst, const char *restrict src, ptrdiff_t n) {
    LP_NAME(line)(dst, src, n, 4 * WORD_BYTES);
}

/* A line by the best of these. */
static ALWAYS_INLINE void LP_NAME(any_line)(char *restrict dst, const char *restrict src, ptrdiff_t n, ptrdiff_t step) {
    if (step == -WORD_BYTES)
        LP_NAME(reverse)(dst, src, n);
    else if (step == 2 * WORD_BYTES)
        LP_NAME(every_second)(dst, src, n);
    else if (step == 3 * WORD_BYTES)
        LP_NAME(every_third)(dst, src, n);
    else if (step == 4 * WORD_BYTES)
        LP_NAME(every_fourth)(dst, src, n);
    else
        LP_NAME(line)(dst, src, n, step);
}

/* Short rows, whose length is better a constant. */
static ALWAYS_INLINE void LP_NAME(short_rows)(char *dst, const char *src, const lp_panel *p, int n) {
    ptrdiff_t dst_rs = p->dst_rs, src_rs = p->src_rs, step = p->src_cs;
    for (ptrdiff_t r = p->valid_rows; r > 0; r--, dst += dst_rs, src += src_rs)
        for (int c = 0; c < n; c++) LP_NAME(move)(dst + c * WORD_BYTES, src + c * step);
}

/* Padded rows of up to four words: these side by side first, then as rows of bytes. */
static void LP_NAME(strided_pads)(char *dst, const char *src, const lp_panel *p) {
    enum { ROWS = 512 / WORD_BYTES };
    char dense[4 * ROWS * WORD_BYTES];
    lp_panel q = *p, r = *p;
    q.dst_rs = r.src_rs = p->valid_cols * WORD_BYTES;
    r.src_cs = WORD_BYTES;
    q.cols = p->valid_cols;
    for (ptrdiff_t at = 0; at < p->valid_rows; at += ROWS) {
        q.rows = q.valid_rows = r.rows = r.valid_rows = p->valid_rows - at < ROWS ? p->valid_rows - at : ROWS;
        if (p->src_rs == q.cols * p->src_cs)
            LP_NAME(any_line)(dense, src + at * p->src_rs, q.rows * q.cols, p->src_cs);
        else if (q.cols == 3)
            LP_NAME(short_rows)(dense, src + at * p->src_rs, &q, 3);
        else
            for (ptrdiff_t i = 0; i < q.rows; i++)
                LP_NAME(line)(dense + i * q.dst_rs, src + (at + i) * p->src_rs, q.cols, p->src_cs);
        copy(dst + at * p->dst_rs, dense, &r);
    }
    fill_rows(dst, p);
}

static void LP_NAME(strided)(char *dst, const char *src, const lp_panel *p) {
    ptrdiff_t n = p->valid_cols, step = p->src_cs, row = p->cols * WORD_BYTES;
    if (p->dst_cs == WORD_BYTES && n < p->cols && n && n <= 4 && (row == 32 || row == 64)) {
        LP_NAME(strided_pads)(dst, src, p);
        return;
    }
    if (p->dst_cs == WORD_BYTES && n == p->cols && p->dst_rs == row && p->src_rs == n * step)
        LP_NAME(any_line)(dst, src, p->valid_rows * n, step); /* all rows are one line */
    else if (p->dst_cs == WORD_BYTES && n == 3)
        LP_NAME(short_rows)(dst, src, p, 3);
    else if (p->dst_cs == WORD_BYTES && n == 4)
        LP_NAME(short_rows)(dst, src, p, 4);
    else
        for (ptrdiff_t r = 0; r < p->valid_rows; r++) {
            char *d = dst + r * p->dst_rs;
            const char *s = src + r * p->src_rs;
            if (p->dst_cs == WORD_BYTES)
                LP_NAME(any_line)(d, s, n, step);
            else
                for (ptrdiff_t c = 0; c < n; c++) LP_NAME(move)(d + c * p->dst_cs, s + c * step);
        }
    fill_rest(dst, p);
}

/* `n` pixels of `c` words each from `c` planes. With a constant c the compiler makes shuffles of it. */
static ALWAYS_INLINE void LP_NAME(interleave)(char *restrict dst, const char *restrict src, ptrdiff_t plane,
                                              ptrdiff_t n, int c) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < c; k++) LP_NAME(move)(dst + (i * c + k) * WORD_BYTES, src + k * plane + i * WORD_BYTES);
}

/* The way back: `c` planes from `n` pixels of `c` words each. */
static ALWAYS_INLINE void LP_NAME(deinterleave)(char *restrict dst, const char *restrict src, ptrdiff_t plane,
                                                ptrdiff_t n, int c) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < c; k++) LP_NAME(move)(dst + k * plane + i * WORD_BYTES, src + (i * c + k) * WORD_BYTES);
}

/* Pixels of four words from four planes, each anywhere. */
static void LP_NAME(gather4)(char *dst, const char *const *plane, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) LP_NAME(move)(dst + (4 * i + k) * WORD_BYTES, plane[k] + i * WORD_BYTES);
}

/* Dense pixels of four words to pixels of `bytes`, a constant, the rest of which is padding. */
static ALWAYS_INLINE void LP_NAME(spread)(char *dst, const char *dense, ptrdiff_t n, ptrdiff_t dst_rs, int bytes,
                                          const char *fill) {
    for (ptrdiff_t i = 0; i < n; i++, dst += dst_rs, dense += 4 * WORD_BYTES) {
        memcpy(dst, fill, bytes);
        memcpy(dst, dense, 4 * WORD_BYTES);
    }
}

/* Up to four planes to pixels of more words: dense pixels of four words first, 2 KiB of them, made by `weave`, and then
 * `spread`. */
static ALWAYS_INLINE void LP_NAME(pad_with)(char *dst, const char *src, const lp_panel *p,
                                            void (*weave)(char *, const char *const *, ptrdiff_t),
                                            void (*spread)(char *, const char *, ptrdiff_t, ptrdiff_t, int,
                                                           const char *)) {
    enum { GROUP = 4 * WORD_BYTES, PIXELS = 2048 / GROUP };
    char dense[2048], line[PIXELS * WORD_BYTES];
    ptrdiff_t pixel = p->cols * WORD_BYTES;
    for (int i = 0; i < PIXELS; i++) memcpy(line + i * WORD_BYTES, p->fill, WORD_BYTES);
    for (ptrdiff_t r = 0; r < p->valid_rows; r += PIXELS) {
        ptrdiff_t n = p->valid_rows - r < PIXELS ? p->valid_rows - r : PIXELS;
        const char *plane[4];
        for (int k = 0; k < 4; k++) plane[k] = k < p->valid_cols ? src + k * p->src_cs + r * WORD_BYTES : line;
        weave(dense, plane, n);
        char *d = dst + r * p->dst_rs;
        if (pixel == 16)
            spread(d, dense, n, p->dst_rs, 16, p->fill);
        else if (pixel == 32)
            spread(d, dense, n, p->dst_rs, 32, p->fill);
        else
            spread(d, dense, n, p->dst_rs, 64, p->fill);
    }
}

/* Whether a panel is of that kind. */
static ALWAYS_INLINE int LP_NAME(pads)(const lp_panel *p) {
    ptrdiff_t pixel = p->cols * WORD_BYTES;
    return p->valid_cols <= 4 && p->cols > 4 && 4 * WORD_BYTES <= pixel && (pixel == 16 || pixel == 32 || pixel == 64);
}

/* Four source words of a column go to four rows: a cache line is read once for four rows instead of once for each. */
static void LP_NAME(transpose)(char *dst, const char *src, const lp_panel *p) {
    int whole = p->valid_cols == p->cols;
    ptrdiff_t pixel = p->cols * WORD_BYTES;
    if (LP_NAME(pads)(p)) {
        LP_NAME(pad_with)(dst, src, p, LP_NAME(gather4), LP_NAME(spread));
        fill_rows(dst, p);
        return;
    }
    if (whole && p->cols == 3 && p->dst_rs == pixel)
        LP_NAME(interleave)(dst, src, p->src_cs, p->valid_rows, 3);
    else if (whole && p->cols == 4 && p->dst_rs == pixel)
        LP_NAME(interleave)(dst, src, p->src_cs, p->valid_rows, 4);
    else if (p->valid_rows == 3 && p->src_cs == 3 * WORD_BYTES)
        LP_NAME(deinterleave)(dst, src, p->dst_rs, p->valid_cols, 3);
    else if (p->valid_rows == 4 && p->src_cs == 4 * WORD_BYTES)
        LP_NAME(deinterleave)(dst, src, p->dst_rs, p->valid_cols, 4);
    else {
        ptrdiff_t r = 0;
        for (; r + 4 <= p->valid_rows; r += 4) {
            char *d = dst + r * p->dst_rs;
            const char *s = src + r * WORD_BYTES;
            for (ptrdiff_t c = 0; c < p->valid_cols; c++) {
                LP_NAME(word) w[4];
                memcpy(w, s + c * p->src_cs, sizeof w);
                memcpy(d + c * WORD_BYTES, &w[0], WORD_BYTES);
                memcpy(d + c * WORD_BYTES + p->dst_rs, &w[1], WORD_BYTES);
                memcpy(d + c * WORD_BYTES + 2 * p->dst_rs, &w[2], WORD_BYTES);
                memcpy(d + c * WORD_BYTES + 3 * p->dst_rs, &w[3], WORD_BYTES);
            }
        }
        for (; r < p->valid_rows; r++)
            for (ptrdiff_t c = 0; c < p->valid_cols; c++)
                LP_NAME(move)(dst + r * p->dst_rs + c * WORD_BYTES, src + r * WORD_BYTES + c * p->src_cs);
    }
    fill_rest(dst, p);
}

#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
