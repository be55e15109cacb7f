/* The step that turns columns into rows: log2(L) rounds of unpacks inside 16-byte lanes, `lo` and `hi` of registers i
 * and i + L/2. Of registers that held one column each, register j then holds row j. Nothing ever crosses a lane. */
#ifndef LAYOUTPACK_NETWORK_H
#define LAYOUTPACK_NETWORK_H

#include "inline.h"

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
