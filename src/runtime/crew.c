/* The crew: helper threads that take chunks of work from whoever calls.
 *
 * How a call works. It owns one of a few permanent slots and opens it by publishing a ticket: the serial number of the
 * job and the next chunk, in one 64-bit word. Caller and helpers take chunks by compare-and-swap on that word. A late
 * helper fails there, because the serial has moved on; so no job is ever allocated, freed or waited for by somebody
 * who took nothing of it.
 *
 * Why not one OpenMP region a call (measured on 2 shared CPUs with GNU OpenMP): its barrier waits
 * for workers that have not even woken, 7.8 ms after a pause of 20 ms; in a forked child it waits for ever; workers
 * spin for milliseconds after every region; 8 callers make 17 threads. Here the helpers' only region never ends.
 *
 * Memory ordering. The fields of a slot change only while its ticket is closed, under a new serial, and are stored with
 * release before the ticket opens; who reads a field of a later job therefore fails its compare-and-swap. `done` goes
 * up after a chunk (release), and the caller reads it (acquire). The pairs epoch/asleep and done/waiting are written by
 * one side and then read by it, crosswise: sequentially consistent. */
#ifdef __linux__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layoutpack/runtime.h"

enum {
    SLOTS = 4,           /* calls that get help at the same time; further ones work alone */
    MAX_HELPERS = 255,   /* threads but one: more than a memory-bound copy can use anywhere */
    SPIN_NS = 50000,     /* how long a helper, or a caller at its end, looks before it sleeps */
    BURST_NS = 100000,   /* calls closer than this are a burst */
    CHECK_NS = 30000000, /* between two looks for a signal */
    START_NS = 2000000,  /* how long a first call waits for its helpers to exist */
};
#define CLOSED UINT32_MAX

struct slot {
    _Alignas(64) _Atomic uint64_t ticket; /* serial << 32 | next chunk */
    _Atomic(lp_task) task;
    _Atomic(void *) argument;
    _Atomic uint32_t chunks;
    _Atomic int helpers; /* helpers with a lower index may take part */
    _Atomic int caller_cpu;
    _Atomic pid_t caller;
    _Atomic int64_t chunk_ns;           /* what one chunk takes, 0: not known yet */
    _Alignas(64) _Atomic uint32_t done; /* chunks finished by helpers; the caller sleeps on this word */
    _Atomic int waiting;
    _Atomic int owned;
};

struct helper {
    _Alignas(64) _Atomic uint32_t asleep; /* 1: sleeps on this word */
    _Atomic pid_t thread;
    _Atomic int shunned;       /* the CPU left out of its affinity mask, -1: none */
    _Atomic int64_t called_at; /* when it was woken last */
};

struct lp_crew {
    _Alignas(64) _Atomic uint32_t epoch; /* counts published jobs; helpers watch it */
    _Alignas(64) _Atomic int size;       /* helpers that exist or are about to */
    _Atomic int starting;
    _Atomic int64_t wake_ns; /* what waking a helper costs the one who does it, running average */
    _Atomic int64_t late_ns; /* how long until that helper runs, running average */
    _Atomic int64_t ended;   /* when the last call ended */
    int bound;               /* the user has placed OpenMP's threads: leave their affinity alone */
    pid_t pid;
    struct slot slots[SLOTS];
    struct helper helpers[MAX_HELPERS];
};

static _Atomic(lp_crew *) the_crew;
static _Atomic(lp_team) the_team;

void lp_set_team(lp_team team) { atomic_store(&the_team, team); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void sleep_on(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

/* ---- waking ------------------------------------------------------------------------------------------------------ */

/* Keep the helper off the caller's CPU, where the kernel likes to queue it behind the caller. The mask stays until a
 * caller runs elsewhere, so few wake-ups pay for it. A refusal (one CPU, a container's rules) does no harm. */
static void shun(struct helper *h, const struct slot *s) {
    int cpu = atomic_load_explicit(&s->caller_cpu, memory_order_relaxed);
    cpu_set_t mask;
    if (cpu < 0 || atomic_load_explicit(&h->shunned, memory_order_relaxed) == cpu) return;
    if (sched_getaffinity(atomic_load_explicit(&s->caller, memory_order_relaxed), sizeof mask, &mask)) return;
    CPU_CLR(cpu, &mask);
    if (!sched_setaffinity(atomic_load(&h->thread), sizeof mask, &mask))
        atomic_store_explicit(&h->shunned, cpu, memory_order_relaxed);
}

static void learn(_Atomic int64_t *average, int64_t sample) {
    int64_t old = atomic_load_explicit(average, memory_order_relaxed);
    if (sample > 4 * old) sample = 4 * old; /* one preempted thread must not spoil it */
    atomic_store_explicit(average, old + (sample - old) / 8, memory_order_relaxed);
}

/* Before each chunk everybody wakes at most one more sleeper, if what is left is worth it; so a large crew wakes as a
 * tree. After a pause a wake-up costs its caller 15 us and the helper runs 50 to 100 us later, in which one thread
 * copies 1 MB: such jobs are better done alone. The first call of a burst wakes all the same, for those that follow. */
static void call_for_help(lp_crew *c, struct slot *s, int64_t left, int burst) {
    int n = atomic_load_explicit(&s->helpers, memory_order_relaxed), awake = 1;
    struct helper *sleeper = NULL;
    for (int i = 0; i < n; i++) {
        if (!atomic_load(&c->helpers[i].asleep))
            awake++;
        else if (!sleeper)
            sleeper = &c->helpers[i];
    }
    if (!sleeper) return;
    int64_t alone = left * atomic_load_explicit(&s->chunk_ns, memory_order_relaxed) / awake;
    int64_t gain = (alone - atomic_load_explicit(&c->late_ns, memory_order_relaxed)) / (awake + 1);
    if (!burst && gain < 2 * atomic_load_explicit(&c->wake_ns, memory_order_relaxed)) return;
    int64_t start = now();
    atomic_store_explicit(&sleeper->called_at, start, memory_order_relaxed);
    if (!atomic_exchange(&sleeper->asleep, 0)) return; /* it woke by itself, or another thread woke it */
    if (!c->bound) shun(sleeper, s);
    wake(&sleeper->asleep);
    learn(&c->wake_ns, now() - start);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

struct work {
    lp_task task;
    void *argument;
    uint32_t chunk;
};

/* Take the next chunk of a slot for helper `index`, or for its caller (-1). */
static int take(struct slot *s, int index, struct work *w) {
    uint64_t ticket = atomic_load_explicit(&s->ticket, memory_order_acquire);
    for (;;) {
        w->chunk = (uint32_t)ticket;
        if (w->chunk == CLOSED || w->chunk >= atomic_load_explicit(&s->chunks, memory_order_acquire)) return 0;
        if (index >= atomic_load_explicit(&s->helpers, memory_order_acquire)) return 0;
        w->task = atomic_load_explicit(&s->task, memory_order_acquire);
        w->argument = atomic_load_explicit(&s->argument, memory_order_acquire);
        if (atomic_compare_exchange_weak_explicit(&s->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return 1;
    }
}

static void help(lp_crew *c, struct slot *s, int index) {
    struct work w;
    while (take(s, index, &w)) {
        call_for_help(c, s, (int64_t)atomic_load_explicit(&s->chunks, memory_order_relaxed) - w.chunk, 0);
        w.task(w.argument, w.chunk);
        atomic_fetch_add(&s->done, 1); /* from here on the caller may return: nothing of the job may be touched */
        if (atomic_load(&s->waiting)) wake(&s->done);
    }
}

void lp_serve(lp_crew *c, int index) {
    struct helper *h = &c->helpers[index];
    atomic_store(&h->shunned, -1);
    atomic_store(&h->thread, (pid_t)syscall(SYS_gettid));
    atomic_store(&c->starting, 0);
    for (;;) {
        uint32_t seen = atomic_load(&c->epoch); /* before looking, so that no later job is missed */
        for (int i = 0; i < SLOTS; i++) help(c, &c->slots[(index + i) % SLOTS], index);
        int64_t end = now() + SPIN_NS;
        while (atomic_load_explicit(&c->epoch, memory_order_acquire) == seen) {
            for (int i = 0; i < 64 && atomic_load_explicit(&c->epoch, memory_order_acquire) == seen; i++) relax();
            if (now() < end) continue;
            atomic_store(&h->asleep, 1);
            while (atomic_load(&c->epoch) == seen && atomic_load(&h->asleep)) sleep_on(&h->asleep, 1);
            if (!atomic_exchange(&h->asleep, 0))
                learn(&c->late_ns, now() - atomic_load_explicit(&h->called_at, memory_order_relaxed));
        }
    }
}

/* ---- the crew ---------------------------------------------------------------------------------------------------- */

/* This process's crew. A forked child has another pid and starts its own; the parent's is left as the fork caught it,
 * which needs neither a fork handler nor a lock. */
static lp_crew *crew_of_process(void) {
    lp_crew *c = atomic_load_explicit(&the_crew, memory_order_acquire), *fresh;
    pid_t pid = getpid();
#ifdef LAYOUTPACK_NO_PID_CHECK /* for .ci/forks: without the check a child is serial, but never waits for anybody */
    if (c) return c;
#endif
    if (c && c->pid == pid) return c;
    if (!(fresh = aligned_alloc(64, sizeof *fresh))) return NULL;
    memset(fresh, 0, sizeof *fresh);
    fresh->pid = pid;
    const char *binding = getenv("OMP_PROC_BIND");
    fresh->bound = binding && *binding && strcasecmp(binding, "false") != 0;
    fresh->wake_ns = 10000; /* first guesses; both are measured from the first wake-up on */
    fresh->late_ns = 50000;
    for (int i = 0; i < SLOTS; i++) fresh->slots[i].ticket = CLOSED;
    if (atomic_compare_exchange_strong(&the_crew, &c, fresh)) return fresh;
    free(fresh);
    return c;
}

struct recruits {
    lp_crew *crew;
    lp_team team;
    int first, count;
};

static void *recruit(void *p) {
    struct recruits r = *(struct recruits *)p;
    free(p);
    r.team(r.crew, r.first, r.count);
    return NULL;
}

/* Let there be `size` helpers: one detached thread enters a team for those that are missing, and no team ever ends. */
static void grow(lp_crew *c, int size) {
    lp_team team = atomic_load(&the_team);
    if (!team || atomic_exchange(&c->starting, 1))
        return; /* somebody else is at it: this call does with what is there */
    int old = atomic_load(&c->size);
    struct recruits *r = size > old ? malloc(sizeof *r) : NULL;
    if (!r) {
        atomic_store(&c->starting, 0);
        return;
    }
    *r = (struct recruits){c, team, old, size - old};
    /* Signals belong to the threads of the program; faults stay where they happen. */
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t id;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&id, &detached, recruit, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    if (failed) {
        free(r);
        atomic_store(&c->starting, 0); /* this call works alone, the next one tries again */
        return;
    }
    atomic_store(&c->size, size);
    /* Wait until it runs, but not for long: entering an OpenMP loop of Cython's while the interpreter is already
     * finalizing is a fatal error in CPython 3.11. */
    for (int64_t end = now() + START_NS; atomic_load(&c->starting) && now() < end;) sched_yield();
}

static struct slot *free_slot(lp_crew *c) {
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &c->slots[i];
        if (!atomic_load_explicit(&s->owned, memory_order_relaxed) && !atomic_exchange(&s->owned, 1)) return s;
    }
    return NULL;
}

static int run_alone(lp_task task, void *argument, ptrdiff_t chunks, lp_check check) {
    int64_t last = check ? now() : 0;
    for (ptrdiff_t k = 0; k < chunks; k++) {
        task(argument, k);
        if (check && now() - last > CHECK_NS) {
            int stopped = check();
            if (stopped) return stopped;
            last = now();
        }
    }
    return 0;
}

/* Wait until helpers have finished `due` chunks. */
static void await(struct slot *s, uint32_t due) {
    int64_t end = now() + SPIN_NS;
    while (atomic_load_explicit(&s->done, memory_order_acquire) != due) {
        for (int i = 0; i < 64 && atomic_load_explicit(&s->done, memory_order_acquire) != due; i++) relax();
        if (now() < end) continue;
        atomic_store(&s->waiting, 1);
        uint32_t done = atomic_load(&s->done);
        if (done != due) sleep_on(&s->done, done);
        atomic_store(&s->waiting, 0);
    }
}

int lp_run(lp_task task, void *argument, ptrdiff_t chunks, int threads, lp_check check) {
    if (threads > chunks) threads = (int)chunks;
    if (threads > MAX_HELPERS + 1) threads = MAX_HELPERS + 1;
    lp_crew *c = threads > 1 && chunks < (ptrdiff_t)CLOSED ? crew_of_process() : NULL;
    if (!c) return run_alone(task, argument, chunks, check);
    if (atomic_load_explicit(&c->size, memory_order_relaxed) < threads - 1) grow(c, threads - 1);
    struct slot *s = free_slot(c);
    if (!s) return run_alone(task, argument, chunks, check);

    uint64_t serial = ((atomic_load_explicit(&s->ticket, memory_order_relaxed) >> 32) + 1) << 32;
    atomic_store_explicit(&s->ticket, serial | CLOSED, memory_order_relaxed);
    atomic_store_explicit(&s->task, task, memory_order_release);
    atomic_store_explicit(&s->argument, argument, memory_order_release);
    atomic_store_explicit(&s->helpers, threads - 1, memory_order_release);
    atomic_store_explicit(&s->chunks, (uint32_t)chunks, memory_order_release);
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->chunk_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&s->caller, (pid_t)syscall(SYS_gettid), memory_order_relaxed);
    atomic_store_explicit(&s->caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&s->ticket, serial, memory_order_release);
    atomic_fetch_add(&c->epoch, 1);

    int64_t began = now(), last = began;
    int burst = began - atomic_load_explicit(&c->ended, memory_order_relaxed) < BURST_NS, stopped = 0;
    uint32_t mine = 0, taken = (uint32_t)chunks;
    struct work w;
    while (take(s, -1, &w)) {
        call_for_help(c, s, chunks - w.chunk, burst);
        task(argument, w.chunk);
        if (!mine++) atomic_store_explicit(&s->chunk_ns, now() - began, memory_order_relaxed);
        if (check && now() - last > CHECK_NS) {
            if ((stopped = check())) {
                uint32_t next = (uint32_t)atomic_exchange(&s->ticket, serial | CLOSED);
                if (next < taken) taken = next;
                break;
            }
            last = now();
        }
    }
    await(s, taken - mine);
    atomic_store_explicit(&c->ended, now(), memory_order_relaxed);
    atomic_store_explicit(&s->owned, 0, memory_order_release);
    return stopped;
}
#endif
