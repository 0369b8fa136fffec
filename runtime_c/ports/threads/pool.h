/* pool.h: a team of POSIX threads, see colibri_team.h.
 *
 *     static struct pool pool;
 *     int error = pool_start(&pool, 4);            // an errno of the system, or 0
 *     status = model_use_team(model, &pool.team);
 *     ...
 *     pool_stop(&pool);                            // after the last call of the model
 *
 * A thread that has nothing to do looks for work for 50 microseconds, as the next job of a call comes sooner than the
 * system could wake it, and then sleeps until there is some. The caller works with the others. A pool serves one call
 * at a time, of any model and context.
 *
 * Threads have the FPU's modes of pool_start's caller, which must be those of its calls. A process that was forked has
 * none of the threads: it starts a pool of its own, and leaves this one alone.
 */
#ifndef COLIBRI_POOL_H
#define COLIBRI_POOL_H

#include "colibri_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    POOL_MOST = 64,       /* threads, the caller's among them */
    POOL_LINE = 64,       /* bytes of a line of cache */
    POOL_STACK = 2 << 20, /* bytes of a thread's stack, unless the system gives more */
};

struct pool {
    colibri_team team; /* for the model */

    /* what the caller writes before the shares, and leaves alone until all parts are done. */
    colibri_part part;
    const void *job;
    uint32_t parts;

    uint32_t shares; /* one for each thread */
    struct {
        _Alignas(POOL_LINE) atomic_uint left; /* parts that nobody has begun */
    } share[POOL_MOST];
    _Alignas(POOL_LINE) atomic_uint done;     /* parts that have ended */
    atomic_uint serving;                      /* threads that have their share */
    _Alignas(POOL_LINE) atomic_uint sleeping; /* threads */
    atomic_bool waiting;                      /* the caller, asleep */
    atomic_bool ending;

    pthread_mutex_t mutex; /* only for going to sleep and waking up */
    pthread_cond_t work;
    pthread_cond_t finished;
    uint32_t threads;
    pthread_t others[POOL_MOST - 1];
};

/* So many threads, the caller's among them: from 1 to POOL_MOST. Returns 0, or why the system started none, as an errno. */
int pool_start(struct pool *pool, uint32_t threads);

/* End the threads; no call of a model may be running. */
void pool_stop(struct pool *pool);

/* Processors that this program may run on, from 1 to POOL_MOST. */
uint32_t pool_processors(void);

#endif
