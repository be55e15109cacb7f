/* The thread runtime: run(task, argument, chunks, threads) on a crew of helper threads that is started once.
 *
 * The caller works too, and waits only for chunks that a helper has taken. So a call ends although no helper is alive
 * (after fork), although all are asleep (after a pause), and although they are busy for another caller. */
#ifndef LAYOUTPACK_RUNTIME_H
#define LAYOUTPACK_RUNTIME_H

#include <stddef.h>

/* Elsewhere the engine falls back to an OpenMP loop over the chunks. */
#ifdef __linux__
#define LP_HAS_CREW 1
#else
#define LP_HAS_CREW 0
#endif

typedef void (*lp_task)(void *argument, ptrdiff_t chunk);

/* Asked by the caller's thread between its chunks, every 30 ms: nonzero ends the call early. */
typedef int (*lp_check)(void);

typedef struct lp_crew lp_crew;

/* Serves the helpers [first, first + count) of a crew, each on a thread of its own; does not return. */
typedef void (*lp_team)(lp_crew *crew, int first, int count);

/* Who supplies the helpers' threads: the engine's OpenMP loop. Without one, calls run on their own thread. */
void lp_set_team(lp_team team);

/* The life of helper `index`: takes chunks and sleeps. Does not return. */
void lp_serve(lp_crew *crew, int index);

/* Run task(argument, k) for every k below `chunks`, each once, on at most `threads` threads.
 * Returns 0, or what `check` returned; then some chunks were not run, and none is running any more. */
int lp_run(lp_task task, void *argument, ptrdiff_t chunks, int threads, lp_check check);

#endif
