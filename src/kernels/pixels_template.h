/* Planes to pixels and back for three and four words a pixel, in AVX2, for one word size.
 *
 * Three planes: N words fill a 16-byte lane, and 3 i + k mod N is a permutation of 0 .. N-1. So one byte shuffle of
 * plane k brings each of its words to the offset that it has in one of three neighbouring vectors of pixels, and blends
 * by offset mod 3 put those together: 9 operations for 96 bytes. The way back is the same, reversed.
 *
 * Define WORD_BYTES, SUFFIX, LO, HI (unpacks of words) and LO2, HI2 (unpacks of pairs), then include. */
#define LP_JOIN2(a, b) a##_##b
#define LP_JOIN(a, b) LP_JOIN2(a, b)
#define LP_NAME(name) LP_JOIN(name, SUFFIX)
#define N (16 / WORD_BYTES)

/* Where byte p of a lane comes from: 11 is the inverse of 3 modulo 16, 8, 4 and 2. */
#define TO(p, k) (11 * ((p) / WORD_BYTES - (k) + 48) % N * WORD_BYTES + (p) % WORD_BYTES)
#define BACK(p, k) ((3 * ((p) / WORD_BYTES) + (k)) % N * WORD_BYTES + (p) % WORD_BYTES)
#define THIRD(p, k) ((p) / WORD_BYTES % 3 == (k) ? -1 : 0)
#define LANE(f, k)                                                                \
    {f(0, k), f(1, k), f(2, k),  f(3, k),  f(4, k),  f(5, k),  f(6, k),  f(7, k), \
     f(8, k), f(9, k), f(10, k), f(11, k), f(12, k), f(13, k), f(14, k), f(15, k)}
static const signed char LP_NAME(to)[3][16] = {LANE(TO, 0), LANE(TO, 1), LANE(TO, 2)};
static const signed char LP_NAME(back)[3][16] = {LANE(BACK, 0), LANE(BACK, 1), LANE(BACK, 2)};
static const signed char LP_NAME(third)[3][16] = {LANE(THIRD, 0), LANE(THIRD, 1), LANE(THIRD, 2)};

/* The mask of the words of plane k in pixel vector j. */
#define OF_PLANE(k, j) third[((k) - (j) * (N % 3) + 6) % 3]

/* What the functions that take steps are made into: `n` pixels, of which the last step overlaps the one before it or,
 * of less than a step, `few` makes them; and the same past the caches from pixel `head` on, which begins a line. */
#define EVEN_PLANES const char *src, ptrdiff_t plane
#define ANY_PLANES const char *const *plane
#define ALL_STEPS(name, few, source, ...)                                              \
    static void LP_NAME(name)(char *dst, source, ptrdiff_t n) {                        \
        if (n < 2 * N) {                                                               \
            few;                                                                       \
            return;                                                                    \
        }                                                                              \
        ptrdiff_t i = LP_NAME(name##_from)(dst, __VA_ARGS__, 0, n, store_2);           \
        if (i < n) LP_NAME(name##_from)(dst, __VA_ARGS__, n - 2 * N, n, store_2);      \
    }                                                                                  \
    static void LP_NAME(name##_past)(char *dst, source, ptrdiff_t head, ptrdiff_t n) { \
        LP_NAME(name)(dst, __VA_ARGS__, head);                                         \
        ptrdiff_t i = LP_NAME(name##_from)(dst, __VA_ARGS__, head, n, stream_2);       \
        if (i < n) LP_NAME(name##_from)(dst, __VA_ARGS__, n - 2 * N, n, store_2);      \
    }

/* Steps of 2 N pixels from pixel i on as long as they fit. Returns where the next would begin. */
static ALWAYS_INLINE ptrdiff_t LP_NAME(weave3_from)(char *dst, const char *src, ptrdiff_t plane, ptrdiff_t i,
                                                    ptrdiff_t n, void (*put)(char *, __m256i)) {
    __m256i shuffle[3], third[3];
    for (int k = 0; k < 3; k++) shuffle[k] = both(LP_NAME(to)[k]), third[k] = both(LP_NAME(third)[k]);
    for (; i + 2 * N <= n; i += 2 * N) {
        __m256i in[3], out[3];
        for (int k = 0; k < 3; k++) in[k] = _mm256_shuffle_epi8(load_32(src + k * plane + i * WORD_BYTES), shuffle[k]);
        for (int j = 0; j < 3; j++)
            out[j] = _mm256_blendv_epi8(_mm256_blendv_epi8(in[0], in[1], OF_PLANE(1, j)), in[2], OF_PLANE(2, j));
        char *d = dst + 3 * i * WORD_BYTES;
        put(d, _mm256_permute2x128_si256(out[0], out[1], 0x20));
        put(d + 32, _mm256_permute2x128_si256(out[2], out[0], 0x30));
        put(d + 64, _mm256_permute2x128_si256(out[1], out[2], 0x31));
    }
    return i;
}

ALL_STEPS(weave3, LP_NAME(interleave)(dst, src, plane, n, 3), EVEN_PLANES, src, plane)

static ALWAYS_INLINE ptrdiff_t LP_NAME(unweave3_from)(char *dst, const char *src, ptrdiff_t plane, ptrdiff_t i,
                                                      ptrdiff_t n, void (*put)(char *, __m256i)) {
    __m256i shuffle[3], third[3];
    for (int k = 0; k < 3; k++) shuffle[k] = both(LP_NAME(back)[k]), third[k] = both(LP_NAME(third)[k]);
    for (; i + 2 * N <= n; i += 2 * N) {
        const char *s = src + 3 * i * WORD_BYTES;
        __m256i in[3];
        for (int j = 0; j < 3; j++) {
            const char *p[2] = {s + 16 * j, s + 16 * j + 48};
            in[j] = load_2(p);
        }
        for (int k = 0; k < 3; k++) {
            __m256i words = _mm256_blendv_epi8(_mm256_blendv_epi8(in[0], in[1], OF_PLANE(k, 1)), in[2], OF_PLANE(k, 2));
            put(dst + k * plane + i * WORD_BYTES, _mm256_shuffle_epi8(words, shuffle[k]));
        }
    }
    return i;
}

ALL_STEPS(unweave3, LP_NAME(deinterleave)(dst, src, plane, n, 3), EVEN_PLANES, src, plane)

/* Pixels of four words from four planes, each anywhere; as with three. */
static ALWAYS_INLINE ptrdiff_t LP_NAME(weave4_from)(char *dst, const char *const *plane, ptrdiff_t i, ptrdiff_t n,
                                                    void (*put)(char *, __m256i)) {
    for (; i + 2 * N <= n; i += 2 * N) {
        ptrdiff_t at = i * WORD_BYTES;
        __m256i a = load_32(plane[0] + at), b = load_32(plane[1] + at);
        __m256i c = load_32(plane[2] + at), d = load_32(plane[3] + at);
        __m256i ab = LO(a, b), cd = LO(c, d), ab_hi = HI(a, b), cd_hi = HI(c, d);
        __m256i p0 = LO2(ab, cd), p1 = HI2(ab, cd), p2 = LO2(ab_hi, cd_hi), p3 = HI2(ab_hi, cd_hi);
        char *out = dst + 4 * at;
        put(out, _mm256_permute2x128_si256(p0, p1, 0x20));
        put(out + 32, _mm256_permute2x128_si256(p2, p3, 0x20));
        put(out + 64, _mm256_permute2x128_si256(p0, p1, 0x31));
        put(out + 96, _mm256_permute2x128_si256(p2, p3, 0x31));
    }
    return i;
}

ALL_STEPS(weave4, LP_NAME(gather4)(dst, plane, n), ANY_PLANES, plane)

/* Where byte b of a lane comes from when the words of a plane, in a lane of whole pixels, are put side by side. */
#define TOGETHER(b, k) (((b) % 4 / WORD_BYTES * 4 + (b) / 4) * WORD_BYTES + (b) % WORD_BYTES + 0 * (k))
static const signed char LP_NAME(together)[16] = LANE(TOGETHER, 0);

/* Four planes from pixels of four words: a shuffle puts the words of each plane together, in 4 bytes of a lane, and
 * these are transposed. */
static ALWAYS_INLINE ptrdiff_t LP_NAME(unweave4_from)(char *dst, const char *src, ptrdiff_t plane, ptrdiff_t i,
                                                      ptrdiff_t n, void (*put)(char *, __m256i)) {
    for (; i + 2 * N <= n; i += 2 * N) {
        __m256i r[4];
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++) {
            const char *s = src + 4 * i * WORD_BYTES + 16 * j, *p[2] = {s, s + 64};
            r[j] = load_2(p);
            if (WORD_BYTES < 4) r[j] = _mm256_shuffle_epi8(r[j], both(LP_NAME(together)));
        }
        turn_4(r);
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) put(dst + k * plane + i * WORD_BYTES, r[k]);
    }
    return i;
}

ALL_STEPS(unweave4, LP_NAME(deinterleave)(dst, src, plane, n, 4), EVEN_PLANES, src, plane)

/* One load, one merge with the padding and one or two stores a pixel. */
static ALWAYS_INLINE void LP_NAME(spread_to)(char *dst, const char *dense, ptrdiff_t n, ptrdiff_t dst_rs, int bytes,
                                             const char *fill, void (*put)(char *, __m256i)) {
    if (bytes == 16) {
        LP_NAME(spread)(dst, dense, n, dst_rs, 16, fill);
        return;
    }
    char rest[64];
    memcpy(rest, fill, 64);
    memset(rest, 0, 4 * WORD_BYTES);
    __m256i low = load_32(rest), high = load_32(rest + 32);
    for (ptrdiff_t i = 0; i < n; i++, dst += dst_rs, dense += 4 * WORD_BYTES) {
#if WORD_BYTES == 1
        __m128i words = _mm_loadu_si32(dense);
#elif WORD_BYTES == 2
        __m128i words = _mm_loadl_epi64((const __m128i *)dense);
#else
        __m128i words = _mm_loadu_si128((const __m128i *)dense);
#endif
        put(dst, _mm256_or_si256(low, _mm256_zextsi128_si256(words)));
        if (bytes == 64) put(dst + 32, high);
    }
}

static ALWAYS_INLINE void LP_NAME(spread_lanes)(char *dst, const char *dense, ptrdiff_t n, ptrdiff_t dst_rs, int bytes,
                                                const char *fill) {
    LP_NAME(spread_to)(dst, dense, n, dst_rs, bytes, fill, store_2);
}

/* The same past the caches, where pixels begin on halves of lines. */
static ALWAYS_INLINE void LP_NAME(spread_past)(char *dst, const char *dense, ptrdiff_t n, ptrdiff_t dst_rs, int bytes,
                                               const char *fill) {
    LP_NAME(spread_to)(dst, dense, n, dst_rs, bytes, fill, stream_2);
}

/* The same where they begin on quarters. */
static ALWAYS_INLINE void LP_NAME(spread_past_by_16)(char *dst, const char *dense, ptrdiff_t n, ptrdiff_t dst_rs,
                                                     int bytes, const char *fill) {
    LP_NAME(spread_to)(dst, dense, n, dst_rs, bytes, fill, stream_halves);
}

/* Panels of pixels of three or four words: whether this was one, and is done. */
static ALWAYS_INLINE int LP_NAME(pixels)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t three = 3 * WORD_BYTES, four = 4 * WORD_BYTES;
    if (LP_NAME(pads)(p))
        LP_NAME(pad_with)(dst, src, p, LP_NAME(weave4), LP_NAME(spread_lanes));
    else if (p->valid_cols == 3 && p->cols == 3 && p->dst_rs == three)
        LP_NAME(weave3)(dst, src, p->src_cs, p->valid_rows);
    else if (p->valid_cols == 4 && p->cols == 4 && p->dst_rs == four) {
        const char *plane[4] = {src, src + p->src_cs, src + 2 * p->src_cs, src + 3 * p->src_cs};
        LP_NAME(weave4)(dst, plane, p->valid_rows);
    } else if (p->valid_rows == 3 && p->rows == 3 && p->valid_cols == p->cols && p->src_cs == three)
        LP_NAME(unweave3)(dst, src, p->dst_rs, p->valid_cols);
    else if (p->valid_rows == 4 && p->rows == 4 && p->valid_cols == p->cols && p->src_cs == four)
        LP_NAME(unweave4)(dst, src, p->dst_rs, p->valid_cols);
    else
        return 0;
    fill_rows(dst, p);
    return 1;
}

/* Pixels to planes past the caches, where all planes lie alike on lines. Not of 4-byte words, which reach 0.7 of memcpy
 * so and 1.1 by way of scratch; bytes 1.8 instead of 0.8. */
static int LP_NAME(planes_run)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t n = p->valid_cols, off = (ptrdiff_t)((uintptr_t)dst & 63), head = off ? (64 - off) / WORD_BYTES : 0;
    if (WORD_BYTES > 2 || off % WORD_BYTES || p->dst_rs % 64 || p->cols != n || p->valid_rows != p->rows) return 0;
    if ((p->rows != 3 && p->rows != 4) || p->src_cs != p->rows * WORD_BYTES || n < head + 2 * N) return 0;
    if (p->rows == 3)
        LP_NAME(unweave3_past)(dst, src, p->dst_rs, head, n);
    else
        LP_NAME(unweave4_past)(dst, src, p->dst_rs, head, n);
    return 1;
}

/* Pixels side by side, past the caches: those before the first that begins a line, and what is left of the last step,
 * are stored as usual. Returns 0, and has done nothing, where it is another panel. */
static int LP_NAME(pixels_run)(char *dst, const char *src, const lp_panel *p) {
    const ptrdiff_t pixel = p->cols * WORD_BYTES, n = p->valid_rows;
    ptrdiff_t head = 0;
    if (p->planes != 1) return 0;
    if (LP_NAME(planes_run)(dst, src, p)) return 1;
    if (p->dst_rs != pixel || p->rows != n) return 0;
    if (LP_NAME(pads)(p) && pixel >= 32 && ((uintptr_t)dst & 15) == 0) {
        if ((uintptr_t)dst & 31)
            LP_NAME(pad_with)(dst, src, p, LP_NAME(weave4), LP_NAME(spread_past_by_16));
        else
            LP_NAME(pad_with)(dst, src, p, LP_NAME(weave4), LP_NAME(spread_past));
        return 1;
    }
    if (p->valid_cols != p->cols || (p->cols != 3 && p->cols != 4)) return 0;
    while ((uintptr_t)(dst + head * pixel) & 63)
        if (++head == 64) return 0;
    if (n < head + 2 * N) return 0;
    const char *plane[4] = {src, src + p->src_cs, src + 2 * p->src_cs, src + 3 * p->src_cs};
    if (p->cols == 3)
        LP_NAME(weave3_past)(dst, src, p->src_cs, head, n);
    else
        LP_NAME(weave4_past)(dst, plane, head, n);
    return 1;
}

#undef TOGETHER
#undef ALL_STEPS
#undef ANY_PLANES
#undef EVEN_PLANES
#undef OF_PLANE
#undef LANE
#undef THIRD
#undef BACK
#undef TO
#undef N
#undef LP_NAME
#undef LP_JOIN
#undef LP_JOIN2
#undef WORD_BYTES
#undef SUFFIX
#undef LO
#undef HI
#undef LO2
#undef HI2
