/* share.h: how generated code cuts its work into parts. Internal to generated code. */
#ifndef COLIBRI_SHARE_H
#define COLIBRI_SHARE_H

#include "colibri_team.h"

#include <stddef.h>

/* All parts of a job; without a team by the caller. */
static inline void colibri_share(const colibri_team *team, colibri_part part, const void *job)
{
    if (team != NULL) {
        team->run(team->pool, part, job, team->parts);
    } else {
        part(job, 0, 1);
    }
}

/* Where a part of count things begins: units are dealt out evenly, and a part has whole ones. */
static inline uint32_t colibri_part_of(uint32_t count, uint32_t unit, uint32_t part, uint32_t parts)
{
    const uint64_t units = (count + unit - 1) / unit;
    const uint64_t first = units * part / parts * unit;
    return first < count ? (uint32_t)first : count;
}

#endif
