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

/* One tile. Columns from `valid` on are padding: their lanes come from the fill words. */
static inline __attribute__((always_inline)) void LP_NAME(tile)(char* dst, ptrdiff_t dst_rs, const char* src,
                                                                ptrdiff_t src_cs, ptrdiff_t valid, const char* fill) {
    VECTOR r[L], t[L];
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) {
        const char* p[LANES];
        _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) {
            ptrdiff_t c = lane * L + i;
            p[lane] = c < valid ? src + c * src_cs : fill;
        }
        r[i] = LOAD(p);
    }
    _Pragma("GCC unroll 4") for (int half = 1; half < L; half *= 2) {
        _Pragma("GCC unroll 8") for (int i = 0; i < L / 2; i++) {
            t[2 * i] = LO(r[i], r[i + L / 2]);
            t[2 * i + 1] = HI(r[i], r[i + L / 2]);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) r[i] = t[i];
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < L; i++) STORE(dst + i * dst_rs, r[i]);
}

/* COLS columns and `rows` >= L rows: the last tile overlaps the one before it. */
static inline __attribute__((always_inline)) void LP_NAME(strip)(char* dst, ptrdiff_t dst_rs, const char* src,
                                                                 ptrdiff_t src_cs, ptrdiff_t rows, ptrdiff_t valid,
                                                                 const char* fill) {
    ptrdiff_t r = 0;
    for (; r + L <= rows; r += L) LP_NAME(tile)(dst + r * dst_rs, dst_rs, src + r * WORD_BYTES, src_cs, valid, fill);
    if (r < rows) {
        r = rows - L;
        LP_NAME(tile)(dst + r * dst_rs, dst_rs, src + r * WORD_BYTES, src_cs, valid, fill);
    }
}

static __attribute__((noinline)) void LP_NAME(padded_strip)(char* dst, ptrdiff_t dst_rs, const char* src,
                                                            ptrdiff_t src_cs, ptrdiff_t rows, ptrdiff_t valid,
                                                            const char* fill) {
    LP_NAME(strip)(dst, dst_rs, src, src_cs, rows, valid, fill);
}

/* A panel of at least COLS columns and L valid rows. */
static void LP_NAME(panel)(char* dst, const char* src, const lp_panel* p) {
    for (ptrdiff_t c = 0; c < p->cols; c += COLS) {
        if (c + COLS > p->cols) c = p->cols - COLS; /* overlaps the strip before it */
        char* d = dst + c * WORD_BYTES;
        const char* s = src + c * p->src_cs;
        ptrdiff_t valid = p->valid_cols - c;
        if (valid >= COLS)
            LP_NAME(strip)(d, p->dst_rs, s, p->src_cs, p->valid_rows, COLS, p->fill);
        else
            LP_NAME(padded_strip)(d, p->dst_rs, valid > 0 ? s : src, p->src_cs, p->valid_rows, valid, p->fill);
    }
    for (ptrdiff_t r = p->valid_rows; r < p->rows; r++) fill_words(dst + r * p->dst_rs, p->cols, p);
}
#undef COLS
#undef L
#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
