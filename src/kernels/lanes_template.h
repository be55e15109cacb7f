/* Matrix transposition for one word size, by a network of unpacks inside 16-byte lanes.
 *
 * L words fill a lane. A tile has LANES * L columns (words that will lie side by side) and L rows. Register i is loaded
 * from the source lines of columns i, L + i, ...: one lane each, and network.h turns them into the rows of the tile.
 *
 * Define WORD_BYTES, SUFFIX, LANES, VECTOR, LOAD(p) (the LANES lanes at p[0], p[1] ...), STORE(p, v), LO(a, b) and
 * HI(a, b) for the word size, then include. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)
#define L (16 / WORD_BYTES)
#define COLS (LANES * L)
#define MANY (COLS > 8)

NETWORK(LP_NAME(turn), VECTOR, L, LO, HI)

/* From loaded registers to rows [first, last); what no row needs the compiler leaves out, where these are constants. */
static ALWAYS_INLINE void LP_NAME(network)(char *dst, ptrdiff_t dst_rs, VECTOR r[L], ptrdiff_t first, ptrdiff_t last) {
    const lp_steps row = steps_of(dst_rs, MANY);
    char *half[2] = {(char *)kept(dst, MANY), (char *)kept(L > 8 ? dst + 8 * dst_rs : dst, MANY)};
    LP_NAME(turn)(r);
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) if (i >= first && i < last)
        STORE(half[i / 8] + times(&row, i % 8), r[i]);
}

/* One tile, of which rows [first, last) are wanted. Columns from `valid` on are padding: their lanes come from the fill
 * words. */
static ALWAYS_INLINE void LP_NAME(tile)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs, ptrdiff_t valid,
                                        const char *fill, ptrdiff_t first, ptrdiff_t last) {
    const lp_steps col = steps_of(src_cs, MANY);
    const char *eighth[(COLS + 7) / 8];
    _Pragma("GCC unroll 4") for (int k = 0; k < (COLS + 7) / 8; k++) eighth[k] =
        kept(8 * k < valid ? src + 8 * k * src_cs : fill, MANY);
    VECTOR r[L];
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
        const char *p[LANES];
        _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) {
            const int c = lane * L + i;
            p[lane] = c < valid ? eighth[c / 8] + times(&col, c % 8) : fill;
        }
        r[i] = LOAD(p);
    }
    LP_NAME(network)(dst, dst_rs, r, first, last);
}

/* `strips` times COLS columns and `rows` >= L rows, tile by tile along the rows: two strips are a line of the output,
 * which is then written at once. The last tile overlaps the one before it. */
static ALWAYS_INLINE void LP_NAME(strip)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs, ptrdiff_t rows,
                                         ptrdiff_t valid, const char *fill, int strips) {
    ptrdiff_t r = 0;
    for (; r + L <= rows; r += L)
        for (int k = 0; k < strips; k++)
            LP_NAME(tile)(dst + r * dst_rs + 16 * LANES * k, dst_rs, src + r * WORD_BYTES + COLS * k * src_cs, src_cs,
                          valid, fill, 0, L);
    if (r == rows) return;
    ptrdiff_t at = rows - L;
    for (int k = 0; k < strips; k++) {
        char *d = dst + at * dst_rs + 16 * LANES * k;
        const char *s = src + at * WORD_BYTES + COLS * k * src_cs;
        if (rows - r == 1) /* as in kernels of 3 x 3: half the network */
            LP_NAME(tile)(d, dst_rs, s, src_cs, valid, fill, L - 1, L);
        else
            LP_NAME(tile)(d, dst_rs, s, src_cs, valid, fill, 0, L);
    }
}

static NOINLINE void LP_NAME(padded_strip)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs,
                                           ptrdiff_t rows, ptrdiff_t valid, const char *fill) {
    LP_NAME(strip)(dst, dst_rs, src, src_cs, rows, valid, fill, 1);
}

/* COLS columns and `rows` < L rows: one tile of which only the first rows are kept. A source line is shorter than a
 * lane, so a load runs past its end: up to `end` that is harmless. */
static ALWAYS_INLINE void LP_NAME(narrow)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs,
                                          ptrdiff_t rows, ptrdiff_t valid, const char *fill, const char *end) {
    if (valid >= COLS && end - (src + (COLS - 1) * src_cs) >= 16) {
        LP_NAME(tile)(dst, dst_rs, src, src_cs, COLS, fill, 0, rows);
        return;
    }
    char whole[16 * COLS];
    VECTOR r[L];
    const char *line[COLS];
    for (ptrdiff_t c = 0; c < COLS; c++) {
        line[c] = c < valid ? src + c * src_cs : fill;
        if (c >= valid || end - line[c] >= 16) continue;
        memcpy(whole + 16 * c, line[c], (size_t)(rows * WORD_BYTES));
        line[c] = whole + 16 * c;
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
        const char *p[LANES];
        _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) p[lane] = line[lane * L + i];
        r[i] = LOAD(p);
    }
    LP_NAME(network)(dst, dst_rs, r, 0, rows);
}

/* Planes of at least COLS columns, and either L valid rows or source lines that go forward. */
static NOINLINE void LP_NAME(panel)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t pair = 2 * COLS, rows = p->valid_rows;
    for (ptrdiff_t k = 0; k < p->planes; k++, dst += p->dst_ps, src += p->src_ps) {
        const char *end = readable_end(src, k, p);
        ptrdiff_t c = 0;
        prefetch_ahead(src, p);
        if (rows >= L)
            for (; c + pair <= p->valid_cols; c += pair)
                LP_NAME(strip)(dst + c * WORD_BYTES, p->dst_rs, src + c * p->src_cs, p->src_cs, rows, COLS, p->fill, 2);
        else if (rows == 3)
            for (; c + COLS <= p->valid_cols; c += COLS)
                LP_NAME(narrow)(dst + c * WORD_BYTES, p->dst_rs, src + c * p->src_cs, p->src_cs, 3, COLS, p->fill, end);
        for (; c < p->cols; c += COLS) {
            if (c + COLS > p->cols) c = p->cols - COLS; /* overlaps the strip before it */
            char *d = dst + c * WORD_BYTES;
            ptrdiff_t valid = p->valid_cols - c;
            const char *s = valid > 0 ? src + c * p->src_cs : src;
            if (rows < L)
                LP_NAME(narrow)(d, p->dst_rs, s, p->src_cs, rows, valid, p->fill, end);
            else if (valid >= COLS)
                LP_NAME(strip)(d, p->dst_rs, s, p->src_cs, rows, COLS, p->fill, 1);
            else
                LP_NAME(padded_strip)(d, p->dst_rs, s, p->src_cs, rows, valid, p->fill);
        }
        if (rows < p->rows) fill_rows(dst, p);
    }
}
#if LANES == 1
/* Fewer columns than a lane, side by side in the output, and at least L rows: rows are stored as whole lanes, one after
 * the other, so that each row mends what the one before it spilled. The last rows are stored word for word. */
static void LP_NAME(few)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t row = p->dst_rs, rows = p->valid_rows, whole = rows - (16 + row - 1) / row;
    const char *column[L];
    for (int i = 0; i < L; i++) column[i] = src + (i < p->cols ? i : 0) * p->src_cs;
    for (ptrdiff_t r = 0; r < rows; r += L) {
        if (r + L > rows) r = rows - L;
        VECTOR v[L];
        char tile[16 * L];
        _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
            const char *at = column[i] + r * WORD_BYTES;
            v[i] = LOAD(&at);
        }
        if (r + L <= whole)
            LP_NAME(network)(dst + r * row, row, v, 0, L);
        else {
            LP_NAME(network)(tile, 16, v, 0, L);
            for (ptrdiff_t i = 0; i < L; i++) memcpy(dst + (r + i) * row, tile + 16 * i, (size_t)row);
        }
    }
    fill_rows(dst, p);
}
#endif
#undef MANY
#undef COLS
#undef L
#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
#undef LO
#undef HI
