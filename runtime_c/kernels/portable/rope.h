/* rope.h: rotate the pairs (i, i + head_dim / 2) of each head by position * frequency[i].
 *
 * coarse: [positions / step][head_dim / 2][cos, sin] of the angle of a * step; fine: [step][head_dim / 2][cos, sin]
 * of the angle of b. The angle of a * step + b follows by the addition theorems.
 */
#ifndef COLIBRI_ROPE_H
#define COLIBRI_ROPE_H

#include <stdint.h>
#include "kernels/portable/rope_2.h"
#include "kernels/portable/unroll.h"

static inline void colibri_rope(float *restrict x, const float *restrict coarse, const float *restrict fine,
                                uint32_t position, uint32_t step, uint32_t heads, uint32_t head_dim)
{
    const uint32_t half = head_dim / 2;
    const float *restrict a = coarse + position / step * head_dim;
    const float *restrict b = fine + position % step * head_dim;
    for (uint32_t i = 0; i < half; i++) {
        const float cosine = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        const float sine = a[2 * i + 1] * b[2 * i] + a[2 * i] * b[2 * i + 1];
        COLIBRI_ONE_BY_ONE
        for (uint32_t head = 0; head < heads; head++) {
            float *pair = x + head * head_dim + i;
            const float low = pair[0];
            const float high = pair[half];
            pair[0] = low * cosine - high * sine;
            pair[half] = high * cosine + low * sine;
        }
    }
}

#endif
