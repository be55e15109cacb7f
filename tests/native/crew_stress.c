/* The crew under stress, for thread sanitizer: conversions by real kernels whose outputs their callers read.
 *
 * The helpers' threads are plain pthreads, since the sanitizer knows nothing of how OpenMP's threads wait for each
 * other. Exit status 0 only if every byte was right; races are the sanitizer's to report. A forked child starts a crew
 * of its own, which the sanitizer allows with TSAN_OPTIONS=die_after_fork=0. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "layoutpack/kernels.h"
#include "layoutpack/runtime.h"

enum { CALLERS = 6, ROUNDS = 60, MOST_THREADS = 5, CHUNKS = 32, ROWS = 24, COLS = 40, PLANE = ROWS * COLS };

static atomic_int wrong;

/* ---- the team ---------------------------------------------------------------------------------------------------- */

struct helper {
    lp_crew *crew;
    int index;
};

static void *serve(void *argument) {
    struct helper helper = *(struct helper *)argument;
    free(argument);
    lp_serve(helper.crew, helper.index);
    return NULL;
}

static void team(lp_crew *crew, int first, int count) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        struct helper *helper = malloc(sizeof *helper);
        if (!helper) abort();
        *helper = (struct helper){crew, first + i};
        if (pthread_create(&thread, NULL, serve, helper)) abort();
        pthread_detach(thread);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* As many matrices as chunks, each transposed by one chunk. It lies on the caller's stack, as the engine's jobs do. */
struct job {
    const lp_kernels *kernels;
    ptrdiff_t chunks;
    unsigned short src[CHUNKS * PLANE], dst[CHUNKS * PLANE];
};

static void transpose(void *argument, ptrdiff_t chunk) {
    struct job *job = argument;
    const ptrdiff_t word = sizeof *job->src;
    const char fill[LP_FILL_BYTES] = {0};
    const lp_panel p = {
        .planes = 1,
        .rows = ROWS,
        .cols = COLS,
        .valid_rows = ROWS,
        .valid_cols = COLS,
        .src_rs = word,
        .src_cs = ROWS * word,
        .dst_rs = COLS * word,
        .dst_cs = word,
        .width = word,
        .fill = fill,
    };
    job->kernels->transpose[1]((char *)(job->dst + chunk * PLANE), (const char *)(job->src + chunk * PLANE), &p);
}

/* Write the input, convert it, read the output: each step must see the one before it, whoever did it. */
static void call(struct job *job, ptrdiff_t chunks, int threads, unsigned seed, lp_check check) {
    job->chunks = chunks;
    for (ptrdiff_t i = 0; i < chunks * PLANE; i++) job->src[i] = (unsigned short)(i * 7 + seed);
    memset(job->dst, 0, sizeof job->dst);
    int stopped = lp_run(transpose, job, chunks, threads, check);
    for (ptrdiff_t i = 0; i < chunks * PLANE; i++) {
        ptrdiff_t plane = i / PLANE * PLANE, r = i % PLANE / COLS, c = i % COLS;
        if (job->dst[i] != job->src[plane + c * ROWS + r] && !stopped) wrong = 1;
    }
}

static int never(void) { return 0; }

static void rest(long ns) { nanosleep(&(struct timespec){0, ns}, NULL); }

static void *caller(void *argument) {
    const unsigned id = (unsigned)(size_t)argument;
    struct job job = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (int i = 0; lp_kernels_built(i); i++) {
            job.kernels = lp_kernels_built(i);
            if (!lp_kernels_available(job.kernels)) continue;
            call(&job, 1 + (round * 5 + id) % CHUNKS, 1 + (int)((round + id) % MOST_THREADS), round, never);
        }
        if (round % 8 == id) rest(1000000); /* long enough for helpers to fall asleep */
    }
    return NULL;
}

static void callers(int count) {
    pthread_t threads[CALLERS];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, caller, (void *)(size_t)i)) abort();
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

/* ---- calls that are ended early, and forks ----------------------------------------------------------------------- */

static void slow(void *argument, ptrdiff_t chunk) {
    rest(10000000);
    ((char *)argument)[chunk] = 1;
}

static int always(void) { return 1; }

/* After an interrupt no chunk runs any more: the buffer is the caller's again. */
static void interrupted(void) {
    char ran[64] = {0};
    int sum = 0;
    if (lp_run(slow, ran, 64, 3, always) != 1) wrong = 1;
    for (int i = 0; i < 64; i++) sum += ran[i], ran[i] = 0;
    if (sum == 0 || sum == 64) wrong = 1;
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        struct job job = {.kernels = lp_kernels_scalar};
        call(&job, CHUNKS, 3, 3, never);
        _exit(wrong);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status) wrong = 1;
}

int main(void) {
    lp_set_team(team);
    callers(1);
    callers(CALLERS);
    forked();
    interrupted();
    rest(50000000); /* everybody sleeps */
    callers(CALLERS);
    puts(wrong ? "wrong bytes" : "all bytes right");
    return wrong;
}
