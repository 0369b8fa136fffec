/* experts.h: which rows chose an expert; add an expert's output with its weight; the first expert's is assigned.
 */
#ifndef COLIBRI_EXPERTS_H
#define COLIBRI_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

/* The slots of index[count] that hold the expert, ascending; returns their number. */
static inline uint32_t colibri_slots_of(int32_t *restrict slots, const uint32_t *restrict index, uint32_t count,
                                        uint32_t expert)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (index[i] == expert) {
            slots[found] = (int32_t)i;
            found++;
        }
    }
    return found;
}

static inline void colibri_combine(float *restrict out, const float *restrict x, float weight, bool first, int width)
{
    for (int i = 0; i < width; i++) {
        const float term = weight * x[i];
        out[i] = first ? term : out[i] + term;
    }
}

#endif
