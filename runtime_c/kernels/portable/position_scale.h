/* position_scale.h: x *= factor[position], elementwise.
 */
#ifndef COLIBRI_POSITION_SCALE_H
#define COLIBRI_POSITION_SCALE_H

#include <stdint.h>

static inline void colibri_position_scale(float *restrict x, const float *restrict factor, uint32_t position, int width)
{
    const float scale = factor[position];
    for (int i = 0; i < width; i++) {
        x[i] = x[i] * scale;
    }
}

#endif
