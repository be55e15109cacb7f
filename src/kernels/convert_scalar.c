/* Conversions of numbers in plain C: the fallback everywhere and the reference for every other instruction set. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TABLE lp_convert_scalar
#define STEP 1
#define REAL float

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float real_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define LOAD(name, type)                             \
    static inline float load_##name(const char *p) { \
        type x;                                      \
        memcpy(&x, p, sizeof x);                     \
        return (float)x;                             \
    }
LOAD(float32, float)
LOAD(uint8, uint8_t)
LOAD(int8, int8_t)
LOAD(uint16, uint16_t)
LOAD(int16, int16_t)

static inline uint32_t load_16(const char *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits;
}

static inline float load_bfloat16(const char *p) { return real_of(load_16(p) << 16); }

static inline float load_float16(const char *p) {
    uint32_t half = load_16(p), sign = (half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest > 0x7c00) return real_of(sign | 0x7fc00000 | rest << 13); /* NaN, which becomes a quiet one */
    if (rest == 0x7c00) return real_of(sign | 0x7f800000);
    if (rest < 0x400) return real_of(sign | bits_of((float)rest * 0x1p-24f)); /* subnormal: exact */
    return real_of(sign | ((rest << 13) + ((127 - 15) << 23)));
}

static inline void store_16(char *p, uint32_t bits) {
    uint16_t low = (uint16_t)bits;
    memcpy(p, &low, sizeof low);
}

static inline void store_float32(char *p, float x) { memcpy(p, &x, sizeof x); }

/* Half of the part that is cut away is added, less one where the part that stays is even: round to nearest even. */
static inline uint32_t round_off(uint32_t bits, int cut) {
    return (bits + (1u << (cut - 1)) - 1 + (bits >> cut & 1)) >> cut;
}

static inline void store_bfloat16(char *p, float x) {
    uint32_t bits = bits_of(x);
    store_16(p, x != x ? bits >> 16 | 0x40 : round_off(bits, 16));
}

static inline void store_float16(char *p, float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff, half;
    if (x != x)
        half = 0x7e00 | (rest >> 13 & 0x3ff);
    else if (rest >= bits_of(65536.0f))
        half = 0x7c00;
    else if (rest < bits_of(0x1p-14f)) /* the sum's last place is that of a subnormal half: the addition rounds */
        half = bits_of(real_of(rest) + 0.5f) - bits_of(0.5f);
    else
        half = round_off(rest - ((127 - 15) << 23), 13);
    store_16(p, sign | half);
}

static inline float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
static inline float spread(const float *p) { return *p; }
static inline float several(const float *p) { return *p; }

#include "convert_template.h"
