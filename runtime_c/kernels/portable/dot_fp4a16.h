/* dot_fp4a16.h: rows of a matrix of 4-bit floats times 16-bit activations, exactly.
 *
 * Packing: 16 bytes for each group of 32 columns; byte c holds column c in its low and column c + 16 in its high
 * half, the bits of a float e2m1. group_scale: one byte a group, the exponent of its power of two, at most 20.
 * x: k values, k a multiple of 32, zero padded. Twice a float is an integer of at most 12 and |x| <= qmax of the op,
 * chosen so that 12 * 2^20 * qmax * k < 2^53. A group's sum is below 2^24.
 */
#ifndef COLIBRI_DOT_FP4A16_H
#define COLIBRI_DOT_FP4A16_H

#include <stdint.h>
#include "kernels/portable/e2m1.h"

#define COLIBRI_DOT_FP4A16_ROWS 1

static inline void colibri_dot_fp4a16(int64_t sum[COLIBRI_DOT_FP4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict group_scale, const int16_t *restrict x, int k)
{
    int64_t total = 0;
    for (int group = 0; group < k / 32; group++) {
        int32_t part = 0;
        for (int i = 0; i < 16; i++) {
            part += colibri_e2m1[w[i] & 15] * x[i];
            part += colibri_e2m1[w[i] >> 4] * x[i + 16];
        }
        total += (int64_t)part * colibri_power(group_scale[group]);
        w += 16;
        x += 32;
    }
    sum[0] = total;
}

#endif
