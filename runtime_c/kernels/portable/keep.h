/* keep.h: put rows into a state. */
#ifndef COLIBRI_KEEP_H
#define COLIBRI_KEEP_H

#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/softmax_int8.h"

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

/* state: [rows][heads][width], scales: [rows][heads]; count: rows times heads. */
static inline void colibri_keep_int8(int8_t *restrict state, uint16_t *restrict scales, const float *restrict x,
                                     uint32_t count, uint32_t width)
{
    for (uint32_t i = 0; i < count; i++) {
        colibri_store_int8(state + i * width, scales + i, x + i * width, width);
    }
}

#endif
