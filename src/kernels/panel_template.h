/* The portable kernels for one word size. Define WORD_BYTES and SUFFIX, then include; scalar.c does so for each size.
 *
 * memcpy of a constant size is how C reads a word at any address: it compiles to one load or store. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)

typedef struct {
    unsigned char bytes[WORD_BYTES];
} LP_NAME(word);

static inline void LP_NAME(move)(char* dst, const char* src) {
    LP_NAME(word) w;
    memcpy(&w, src, sizeof w);
    memcpy(dst, &w, sizeof w);
}

static void LP_NAME(strided)(char* dst, const char* src, const lp_panel* p) {
    for (ptrdiff_t r = 0; r < p->valid_rows; r++) {
        char* d = dst + r * p->dst_rs;
        const char* s = src + r * p->src_rs;
        for (ptrdiff_t c = 0; c < p->valid_cols; c++) LP_NAME(move)(d + c * p->dst_cs, s + c * p->src_cs);
    }
    fill_rest(dst, p);
}

/* Four source words of a column go to four rows: a cache line is read once for four rows instead of once for each. */
static void LP_NAME(transpose)(char* dst, const char* src, const lp_panel* p) {
    ptrdiff_t r = 0;
    for (; r + 4 <= p->valid_rows; r += 4) {
        char* d = dst + r * p->dst_rs;
        const char* s = src + r * WORD_BYTES;
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
    fill_rest(dst, p);
}

#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
