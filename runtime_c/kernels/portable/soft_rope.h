/* soft_rope.h: as rope.h, for cores without an FPU.
 */
#ifndef COLIBRI_ROPE_H
#define COLIBRI_ROPE_H

#include <stdint.h>
#include "kernels/portable/rope_2.h"
#include "kernels/portable/soft_float.h"

/* The pair (a, b) turned by an angle: a * cosine - b * sine, and b * cosine + a * sine. */
static COLIBRI_APART void colibri_soft_turn(float *restrict x, float *restrict y, float a, float b, float cosine,
                                            float sine)
{
    *x = colibri_soft_subtract(colibri_soft_times(a, cosine), colibri_soft_times(b, sine));
    *y = colibri_soft_add(colibri_soft_times(b, cosine), colibri_soft_times(a, sine));
}

static inline void colibri_rope(float *restrict x, const float *restrict coarse, const float *restrict fine,
                                uint32_t position, uint32_t step, uint32_t heads, uint32_t head_dim)
{
    const uint32_t half = head_dim / 2;
    const float *restrict a = coarse + position / step * head_dim;
    const float *restrict b = fine + position % step * head_dim;
    for (uint32_t i = 0; i < half; i++) {
        float cosine;
        float sine;
        colibri_soft_turn(&cosine, &sine, a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]);
        for (uint32_t head = 0; head < heads; head++) {
            float *const pair = x + head * head_dim + i;
            colibri_soft_turn(pair, pair + half, pair[0], pair[half], cosine, sine);
        }
    }
}

#endif
