/* rope_2.h: rope.h for heads of one pair.
 *
 * With sums alone: of a difference beside a sum GCC 12 makes a fused vfmaddsub for x86, whatever -ffp-contract says.
 */
#ifndef COLIBRI_ROPE_2_H
#define COLIBRI_ROPE_2_H

#include <stdint.h>

static inline void colibri_rope_2(float *restrict x, const float *restrict coarse, const float *restrict fine,
                                  uint32_t position, uint32_t step, uint32_t heads)
{
    const float *restrict a = coarse + position / step * 2;
    const float *restrict b = fine + position % step * 2;
    const float cosine = a[0] * b[0] - a[1] * b[1];
    const float sine = a[1] * b[0] + a[0] * b[1];
    const float minus = -sine;
    for (uint32_t head = 0; head < heads; head++) {
        float *pair = x + head * 2;
        const float low = pair[0];
        const float high = pair[1];
        pair[0] = low * cosine + high * minus;
        pair[1] = high * cosine + low * sine;
    }
}

#endif
