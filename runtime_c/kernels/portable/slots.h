/* slots.h: which rows chose an expert.
 */
#ifndef COLIBRI_SLOTS_H
#define COLIBRI_SLOTS_H

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

#endif
