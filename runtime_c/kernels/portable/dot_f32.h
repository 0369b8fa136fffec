/* dot_f32.h: rows of an fp32 matrix times one vector.
 *
 * sum[r] = w[r][0] * x[0] + w[r][1] * x[1] + ...: one accumulator a row, added in ascending column.
 * Packing: [k][COLIBRI_DOT_F32_ROWS] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include "kernels/portable/unroll.h"

#define COLIBRI_DOT_F32_ROWS 1

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    float total = 0.0f;
    COLIBRI_IN_EIGHTS
    for (int i = 0; i < k; i++) {
        total += x[i] * w[i];
    }
    sum[0] = total;
}

#endif
