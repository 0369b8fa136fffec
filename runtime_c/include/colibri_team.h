/* colibri_team.h: threads that share the work of a model's calls.
 *
 * A model knows no threads: it hands jobs to a team, which is the application's. A job is a function that is called once
 * for each part, by any thread, in any order, at the same time or not. Parts see all that run's caller wrote before; run
 * returns when all calls have returned, and what they wrote is then visible to its caller. Threads have the FPU's modes
 * of the caller. Parts write to different places and wait for nothing, so a team may also call them one after the other.
 * Bits do not depend on the number of parts.
 *
 *     static void run(void *pool, colibri_part part, const void *job, uint32_t parts)
 *     {
 *     #pragma omp parallel for
 *         for (uint32_t i = 0; i < parts; i++) {
 *             part(job, i, parts);
 *         }
 *     }
 *     static const colibri_team team = {.parts = 4, .run = run, .pool = NULL};
 *
 * Some parts may have nothing to do. More parts than threads even out threads of different speed; each hand-over should
 * take about a microsecond, as there are some five for each layer.
 */
#ifndef COLIBRI_TEAM_H
#define COLIBRI_TEAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Part 0, 1, ... or parts - 1 of a job. */
typedef void (*colibri_part)(const void *job, uint32_t part, uint32_t parts);

typedef struct colibri_team {
    uint32_t parts; /* that each job is cut into, at least 1 */
    void (*run)(void *pool, colibri_part part, const void *job, uint32_t parts);
    void *pool; /* what run is given */
} colibri_team;

#ifdef __cplusplus
}
#endif

#endif
