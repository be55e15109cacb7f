/* Matrix transposition for one word size, by a network of unpacks inside 16-byte lanes.
 *
 * L words fill a lane. A tile has LANES * L columns (words that will lie side by side) and L rows. Register i is loaded
 * from the source lines of columns i, L + i, ...: one lane each. Then log2(L) times the same step, `lo` and `hi`
 * unpacks of registers i and i + L/2, and register j holds row j of the tile. Nothing ever crosses a lane.
 *
 * Define WORD_BYTES, SUFFIX, LANES, VECTOR, LOAD(p) (the LANES lanes at p[0], p[1] ...), STORE(p, v), LO(a, b) and
 * HI(a, b) for the word size, then include. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)
#define L (16 / WORD_BYTES)
#define COLS (LANES * L)

/* The network, from loaded registers to the first `rows` rows. */
static ALWAYS_INLINE void LP_NAME(network)(char *dst, ptrdiff_t dst_rs, VECTOR r[L], ptrdiff_t rows) {
    VECTOR t[L];
    _Pragma("GCC unroll 4") for (int half = 1; half < L; half *= 2) {
        _Pragma("GCC unroll 8") for (int i = 0; i < L / 2; i++) {
            t[2 * i] = LO(r[i], r[i + L / 2]);
            t[2 * i + 1] = HI(r[i], r[i + L / 2]);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) r[i] = t[i];
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) if (i < rows) STORE(dst + i * dst_rs, r[i]);
}

/* One tile. Columns from `valid` on are padding: their lanes come from the fill words. */
static ALWAYS_INLINE void LP_NAME(tile)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs, ptrdiff_t valid,
                                        const char *fill) {
    VECTOR r[L];
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
        const char *p[LANES];
        _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) {
            ptrdiff_t c = lane * L + i;
            p[lane] = c < valid ? src + c * src_cs : fill;
        }
        r[i] = LOAD(p);
    }
    LP_NAME(network)(dst, dst_rs, r, L);
}

/* COLS columns and `rows` >= L rows: the last tile overlaps the one before it. */
static ALWAYS_INLINE void LP_NAME(strip)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs, ptrdiff_t rows,
                                         ptrdiff_t valid, const char *fill) {
    ptrdiff_t r = 0;
    for (; r + L <= rows; r += L) LP_NAME(tile)(dst + r * dst_rs, dst_rs, src + r * WORD_BYTES, src_cs, valid, fill);
    if (r < rows) {
        r = rows - L;
        LP_NAME(tile)(dst + r * dst_rs, dst_rs, src + r * WORD_BYTES, src_cs, valid, fill);
    }
}

static NOINLINE void LP_NAME(padded_strip)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs,
                                           ptrdiff_t rows, ptrdiff_t valid, const char *fill) {
    LP_NAME(strip)(dst, dst_rs, src, src_cs, rows, valid, fill);
}

/* COLS columns and `rows` < L rows: one tile of which only the first rows are kept. A source line is shorter than a
 * lane, so a load runs past its end. That is harmless inside a page and before `end`, the end of the source; other
 * lines are copied first. */
static ALWAYS_INLINE void LP_NAME(narrow)(char *dst, ptrdiff_t dst_rs, const char *src, ptrdiff_t src_cs,
                                          ptrdiff_t rows, ptrdiff_t valid, const char *fill, const char *end) {
    char whole[16 * COLS];
    VECTOR r[L];
    const char *line[COLS];
    for (ptrdiff_t c = 0; c < COLS; c++) line[c] = c < valid ? src + c * src_cs : fill;
    for (ptrdiff_t c = 0; c < COLS && c < valid; c++) {
        if (end - line[c] >= 16 && stays_on_page(line[c])) continue;
        memcpy(whole + 16 * c, line[c], (size_t)(rows * WORD_BYTES));
        line[c] = whole + 16 * c;
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
        const char *p[LANES];
        _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) p[lane] = line[lane * L + i];
        r[i] = LOAD(p);
    }
    LP_NAME(network)(dst, dst_rs, r, rows);
}

/* A panel of at least COLS columns, and either L valid rows or source lines that go forward. */
static void LP_NAME(panel)(char *dst, const char *src, const lp_panel *p) {
    const char *end = src + (p->valid_cols - 1) * p->src_cs + p->valid_rows * WORD_BYTES;
    for (ptrdiff_t c = 0; c < p->cols; c += COLS) {
        if (c + COLS > p->cols) c = p->cols - COLS; /* overlaps the strip before it */
        char *d = dst + c * WORD_BYTES;
        ptrdiff_t valid = p->valid_cols - c;
        const char *s = valid > 0 ? src + c * p->src_cs : src;
        if (p->valid_rows < L)
            LP_NAME(narrow)(d, p->dst_rs, s, p->src_cs, p->valid_rows, valid, p->fill, end);
        else if (valid >= COLS)
            LP_NAME(strip)(d, p->dst_rs, s, p->src_cs, p->valid_rows, COLS, p->fill);
        else
            LP_NAME(padded_strip)(d, p->dst_rs, s, p->src_cs, p->valid_rows, valid, p->fill);
    }
    fill_rows(dst, p);
}
#undef COLS
#undef L
#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
#undef LO
#undef HI
