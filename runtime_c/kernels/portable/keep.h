/* keep.h: put rows into a state. */
#ifndef COLIBRI_KEEP_H
#define COLIBRI_KEEP_H

#include <stdint.h>
#include "kernels/portable/float16.h"

static inline void colibri_keep_f32(float *restrict state, const float *restrict x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        state[i] = x[i];
    }
}

static inline void colibri_keep_f16(uint16_t *restrict state, const float *restrict x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        state[i] = colibri_to_f16(x[i]);
    }
}

#endif
