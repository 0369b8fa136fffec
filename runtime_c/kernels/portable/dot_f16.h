/* dot_f16.h: rows of a matrix of half precision times one vector of fp32.
 *
 * sum[r] = w[r][0] * x[0] + w[r][1] * x[1] + ...: weights become fp32, which is exact; then as dot_f32.
 * Packing: [k][COLIBRI_DOT_F16_ROWS] fp16, none infinite or NaN, 16-byte aligned at the
 * matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F16_H
#define COLIBRI_DOT_F16_H

#include <stdint.h>
#include "kernels/portable/float16.h"

#define COLIBRI_DOT_F16_ROWS 1

static inline void colibri_dot_f16(float sum[COLIBRI_DOT_F16_ROWS], const uint16_t *restrict w,
                                   const float *restrict x, int k)
{
    float total = 0.0f;
    for (int i = 0; i < k; i++) {
        total += x[i] * colibri_from_f16(w[i]);
    }
    sum[0] = total;
}

#endif
