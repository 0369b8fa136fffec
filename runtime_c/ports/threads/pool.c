/* pool.c: each thread has a share of the parts, and takes from those of others when its own is gone.
 *
 * A share is a run of parts, taken in order: the weights of a part lie behind those of the one before, which is where a
 * processor has read on. They are taken one by one, so that a thread which the system has put aside holds up nobody.
 * left counts a share down: who makes it one less owns that part, and may read the job, since its caller waits for the
 * part. A thread that goes to sleep says so first and then looks once more, the caller publishes work first and then looks
 * who sleeps: with sequentially consistent atomics one of them sees the other.
 */
#define _GNU_SOURCE /* sched_getaffinity, which POSIX has not */

#include "pool.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum {
    SPIN_NS = 50000, /* about what falling asleep and being woken takes */
    LOOKS = 64,      /* between two looks at the clock */
    CUT = 6,         /* parts for each thread: a slower one takes fewer */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
    __asm__ volatile("yield");
#elif defined(__riscv)
    __asm__ volatile(".insn i 0x0F, 0, x0, x0, 0x010"); /* pause, where the core knows it */
#endif
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Is there something to do? For parts: some are left. For the caller: all have ended. */
static bool is_ready(struct pool *pool, bool caller)
{
    if (caller) {
        return atomic_load(&pool->done) == pool->parts;
    }
    for (uint32_t i = 0; i < pool->shares; i++) {
        if (atomic_load(&pool->share[i].left) > 0) {
            return true;
        }
    }
    return atomic_load(&pool->ending);
}

/* Look for a while; true when there is something. */
static bool spin(struct pool *pool, bool caller)
{
    const uint64_t begin = now();

    do {
        for (int i = 0; i < LOOKS; i++) {
            if (is_ready(pool, caller)) {
                return true;
            }
            relax();
        }
    } while (now() - begin < SPIN_NS);
    return false;
}

/* Where a share ends. */
static uint32_t end_of(uint32_t parts, uint32_t share, uint32_t shares)
{
    return (uint32_t)((uint64_t)parts * (share + 1) / shares);
}

/* Take the parts of one share as long as there are any. */
static void take_share(struct pool *pool, uint32_t share)
{
    atomic_uint *const from = &pool->share[share].left;
    unsigned left = atomic_load(from);

    while (left > 0) {
        if (atomic_compare_exchange_weak(from, &left, left - 1)) {
            const uint32_t parts = pool->parts;

            pool->part(pool->job, end_of(parts, share, pool->shares) - left, parts);
            /* the job may be over, and the next one begin, as soon as this is counted. */
            if (atomic_fetch_add(&pool->done, 1) + 1 == parts && atomic_load(&pool->waiting)) {
                pthread_mutex_lock(&pool->mutex);
                pthread_cond_signal(&pool->finished);
                pthread_mutex_unlock(&pool->mutex);
            }
            left = atomic_load(from);
        }
    }
}

/* Take parts as long as there are any, from a thread's own share first. */
static void take_parts(struct pool *pool, uint32_t own)
{
    for (uint32_t i = 0; i < pool->shares; i++) {
        take_share(pool, (own + i) % pool->shares);
    }
}

static void *serve(void *given)
{
    struct pool *pool = given;
    const uint32_t own = atomic_fetch_add(&pool->serving, 1) + 1; /* the caller has share 0 */

    while (!atomic_load(&pool->ending)) {
        if (!spin(pool, false)) {
            pthread_mutex_lock(&pool->mutex);
            atomic_fetch_add(&pool->sleeping, 1);
            while (!is_ready(pool, false)) {
                pthread_cond_wait(&pool->work, &pool->mutex);
            }
            atomic_fetch_sub(&pool->sleeping, 1);
            pthread_mutex_unlock(&pool->mutex);
        }
        take_parts(pool, own);
    }
    return NULL;
}

static void wake(struct pool *pool)
{
    if (atomic_load(&pool->sleeping) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void run(void *given, colibri_part part, const void *job, uint32_t parts)
{
    struct pool *pool = given;

    pool->part = part;
    pool->job = job;
    pool->parts = parts;
    atomic_store(&pool->done, 0);
    for (uint32_t i = 0, begin = 0; i < pool->shares; i++) {
        const uint32_t end = end_of(parts, i, pool->shares);

        atomic_store(&pool->share[i].left, end - begin);
        begin = end;
    }
    wake(pool);
    take_parts(pool, 0);
    if (!spin(pool, true)) {
        pthread_mutex_lock(&pool->mutex);
        atomic_store(&pool->waiting, true);
        while (!is_ready(pool, true)) {
            pthread_cond_wait(&pool->finished, &pool->mutex);
        }
        atomic_store(&pool->waiting, false);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* One more thread. Its stack has POOL_STACK bytes at least: some systems give 128 KB, less than parts may need. */
static int start_thread(struct pool *pool, pthread_t *thread)
{
    pthread_attr_t how;
    size_t stack;
    int error = pthread_attr_init(&how);

    if (error != 0) {
        return error;
    }
    error = pthread_attr_getstacksize(&how, &stack);
    if (error == 0 && stack < POOL_STACK) {
        error = pthread_attr_setstacksize(&how, POOL_STACK);
    }
    if (error == 0) {
        error = pthread_create(thread, &how, serve, pool);
    }
    pthread_attr_destroy(&how);
    return error;
}

int pool_start(struct pool *pool, uint32_t threads)
{
    if (threads == 0 || threads > POOL_MOST) {
        return EINVAL;
    }
    memset(pool, 0, sizeof *pool);
    pool->shares = threads;
    for (uint32_t i = 0; i < threads; i++) {
        atomic_init(&pool->share[i].left, 0);
    }
    atomic_init(&pool->serving, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->sleeping, 0);
    atomic_init(&pool->waiting, false);
    atomic_init(&pool->ending, false);
    int error = pthread_mutex_init(&pool->mutex, NULL);
    if (error != 0) {
        return error;
    }
    error = pthread_cond_init(&pool->work, NULL);
    if (error == 0) {
        error = pthread_cond_init(&pool->finished, NULL);
        if (error != 0) {
            pthread_cond_destroy(&pool->work);
        }
    }
    if (error != 0) {
        pthread_mutex_destroy(&pool->mutex);
        return error;
    }
    for (pool->threads = 1; pool->threads < threads; pool->threads++) {
        error = start_thread(pool, &pool->others[pool->threads - 1]);
        if (error != 0) {
            pool_stop(pool);
            return error;
        }
    }
    pool->team = (colibri_team){.parts = threads == 1 ? 1 : CUT * threads, .run = run, .pool = pool};
    return 0;
}

void pool_stop(struct pool *pool)
{
    atomic_store(&pool->ending, true);
    wake(pool);
    for (uint32_t i = 0; i + 1 < pool->threads; i++) {
        pthread_join(pool->others[i], NULL);
    }
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    pool->threads = 0;
    pool->team.parts = 0; /* a model refuses it from now on */
}

uint32_t pool_processors(void)
{
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return count < 1 ? 1 : count > POOL_MOST ? POOL_MOST : (uint32_t)count;
}
