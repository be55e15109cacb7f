/* The step that turns columns into rows: log2(L) rounds of unpacks inside 16-byte lanes, `lo` and `hi` of registers i
 * and i + L/2. Of registers that held one column each, register j then holds row j. Nothing ever crosses a lane. */
#ifndef LAYOUTPACK_NETWORK_H
#define LAYOUTPACK_NETWORK_H

#include <stddef.h>

#include "inline.h"

/* A step times 1, 3, 5 and 7 in registers: with these every multiple up to 8 is an address of one instruction. Left to
 * itself GCC keeps the multiples for sixteen columns and more in memory, and loads one for each load of the tile: tiles
 * of bytes take 1.3 to 1.5 times as long, of two bytes 1.1 to 1.3. The addresses of eight columns fit its registers,
 * and are then the better way by a sixth: `many` tells, a constant. */
typedef struct {
    ptrdiff_t one, three, five, seven;
} lp_steps;

static ALWAYS_INLINE lp_steps steps_of(ptrdiff_t step, int many) {
    lp_steps s = {step, 3 * step, 5 * step, 7 * step};
#ifdef __GNUC__
    if (many) __asm__("" : "+r"(s.one), "+r"(s.three), "+r"(s.five), "+r"(s.seven)); /* unknown from here on */
#else
    (void)many;
#endif
    return s;
}

static ALWAYS_INLINE const char *kept(const char *p, int many) {
#ifdef __GNUC__
    if (many) __asm__("" : "+r"(p));
#else
    (void)many;
#endif
    return p;
}

/* `i`, less than 8, is a constant. */
static ALWAYS_INLINE ptrdiff_t times(const lp_steps *s, int i) {
    const ptrdiff_t of[8] = {0, s->one, 2 * s->one, s->three, 4 * s->one, s->five, 2 * s->three, s->seven};
    return of[i];
}

#define NETWORK(name, VECTOR, L, LO, HI)                                        \
    static ALWAYS_INLINE void name(VECTOR r[L]) {                               \
        VECTOR t[L];                                                            \
        _Pragma("GCC unroll 4") for (int half = 1; half < (L); half *= 2) {     \
            _Pragma("GCC unroll 8") for (int i = 0; i < (L) / 2; i++) {         \
                t[2 * i] = LO(r[i], r[i + (L) / 2]);                            \
                t[2 * i + 1] = HI(r[i], r[i + (L) / 2]);                        \
            }                                                                   \
            _Pragma("GCC unroll 16") for (int i = 0; i < (L); i++) r[i] = t[i]; \
        }                                                                       \
    }

#endif
