/* Functions that become one with their callers, where their arguments are constants, and functions that must not. */
#ifndef LAYOUTPACK_INLINE_H
#define LAYOUTPACK_INLINE_H

#ifdef __GNUC__
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#else
#define ALWAYS_INLINE inline
#define NOINLINE
#endif

#endif
