/* Nine words a pixel to nine planes and back, in AVX2, for one word size: weights of 3 x 3 kernels.
 *
 * N words fill a lane; N pixels are nine lanes of dense words. Word p of lane j is number N j + p, so it belongs to
 * plane (N j + p) mod 9, and with u[i] the lane number i / N mod 9, plane k has its word p in u[k - p mod 9]. To turn
 * the nine registers round by p in each word p takes one blend a register for each bit of p. Then one byte shuffle
 * brings the words of a plane, which are spread over p without a gap since 9 is odd, into order. Two lanes go side by
 * side.
 *
 * Define WORD_BYTES, SUFFIX and TURN(a, b, bit): words of b where p has the bit, of a elsewhere; then include. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)
#define N (16 / WORD_BYTES)
/* 1 / N modulo 9 for N = 16, 8, 4. */
#define INVERSE (N == 16 ? 4 : N == 8 ? 8 : 7)

/* Byte b of lanes in order: where it lies before the shuffle; and the way back: 9 is its own inverse modulo 16. */
#define TO_ORDER(b, k) ((9 * ((b) / WORD_BYTES) + (k)) % N * WORD_BYTES + (b) % WORD_BYTES)
#define FROM_ORDER(b, k) (9 * ((b) / WORD_BYTES + N - (k) % N) % N * WORD_BYTES + (b) % WORD_BYTES)
#define LANE(f, k)                                                                \
    {f(0, k), f(1, k), f(2, k),  f(3, k),  f(4, k),  f(5, k),  f(6, k),  f(7, k), \
     f(8, k), f(9, k), f(10, k), f(11, k), f(12, k), f(13, k), f(14, k), f(15, k)}
#define PLANES_9(f) \
    {LANE(f, 0), LANE(f, 1), LANE(f, 2), LANE(f, 3), LANE(f, 4), LANE(f, 5), LANE(f, 6), LANE(f, 7), LANE(f, 8)}
static const signed char LP_NAME(to_order)[9][16] = PLANES_9(TO_ORDER);
static const signed char LP_NAME(from_order)[9][16] = PLANES_9(FROM_ORDER);

/* Register i takes words from register i + step where p has the bit. */
#define STEP(bit, step)                                                                                  \
    if (bit < N) {                                                                                       \
        __m256i t[9];                                                                                    \
        _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) t[i] = TURN(u[i], u[(i + (step)) % 9], bit); \
        _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) u[i] = t[i];                                 \
    }

/* 2 N pixels. */
static ALWAYS_INLINE void LP_NAME(unweave9_step)(char *dst, ptrdiff_t dst_rs, const char *src) {
    __m256i u[9];
    _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) {
        const char *s = src + 16 * (INVERSE * i % 9);
        u[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)s)),
                                       _mm_loadu_si128((const __m128i *)(s + 144)), 1);
    }
    STEP(1, 8);
    STEP(2, 7);
    STEP(4, 5);
    STEP(8, 1);
    const lp_steps row = steps_of(dst_rs, 1);
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++)
        store_32(dst + (k == 8 ? 8 * row.one : times(&row, k)), _mm256_shuffle_epi8(u[k], both(LP_NAME(to_order)[k])));
}

static ALWAYS_INLINE void LP_NAME(weave9_step)(char *dst, const char *src, ptrdiff_t src_cs) {
    const lp_steps col = steps_of(src_cs, 1);
    __m256i u[9];
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) u[k] =
        _mm256_shuffle_epi8(load_32(src + (k == 8 ? 8 * col.one : times(&col, k))), both(LP_NAME(from_order)[k]));
    STEP(1, 1);
    STEP(2, 2);
    STEP(4, 4);
    STEP(8, 8);
    _Pragma("GCC unroll 9") for (int i = 0; i < 9; i++) {
        char *d = dst + 16 * (INVERSE * i % 9);
        _mm_storeu_si128((__m128i *)d, _mm256_castsi256_si128(u[i]));
        _mm_storeu_si128((__m128i *)(d + 144), _mm256_extracti128_si256(u[i], 1));
    }
}

/* Panels of nine rows from dense pixels, or of nine columns to dense pixels, with 2 N pixels at least: whether this was
 * one, and is done. The last step overlaps the one before it. */
static NOINLINE void LP_NAME(unweave9)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t pixel = 9 * WORD_BYTES, step = 2 * N;
    for (ptrdiff_t k = 0; k < p->planes; k++, dst += p->dst_ps, src += p->src_ps) {
        prefetch_ahead(src, p);
        for (ptrdiff_t c = 0; c < p->cols; c += step) {
            if (c + step > p->cols) c = p->cols - step;
            LP_NAME(unweave9_step)(dst + c * WORD_BYTES, p->dst_rs, src + c * pixel);
        }
        if (p->rows > 9) fill_rows(dst, p);
    }
}

static NOINLINE void LP_NAME(weave9)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t pixel = 9 * WORD_BYTES, step = 2 * N;
    for (ptrdiff_t k = 0; k < p->planes; k++, dst += p->dst_ps, src += p->src_ps) {
        for (ptrdiff_t r = 0; r < p->valid_rows; r += step) {
            if (r + step > p->valid_rows) r = p->valid_rows - step;
            LP_NAME(weave9_step)(dst + r * pixel, src + r * WORD_BYTES, p->src_cs);
        }
        if (p->valid_rows < p->rows) fill_rows(dst, p);
    }
}

static int LP_NAME(nines)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t pixel = 9 * WORD_BYTES, step = 2 * N;
    if (p->valid_rows == 9 && p->src_cs == pixel && p->valid_cols == p->cols && p->cols >= step)
        LP_NAME(unweave9)(dst, src, p);
    else if (p->valid_cols == 9 && p->cols == 9 && p->dst_rs == pixel && p->valid_rows >= step)
        LP_NAME(weave9)(dst, src, p);
    else
        return 0;
    return 1;
}

#undef STEP
#undef PLANES_9
#undef LANE
#undef FROM_ORDER
#undef TO_ORDER
#undef INVERSE
#undef N
#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
#undef TURN
