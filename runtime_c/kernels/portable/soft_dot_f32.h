/* soft_dot_f32.h: as dot_f32.h, for cores without an FPU.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include "kernels/portable/soft_add.h"
#include "kernels/portable/soft_multiply.h"

#define COLIBRI_DOT_F32_ROWS 1

static COLIBRI_APART void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w,
                                          const float *restrict x, int k)
{
    float total = 0.0f;
    for (int i = 0; i < k; i++) {
        total = colibri_soft_add(total, colibri_soft_multiply(w[i], x[i]));
    }
    sum[0] = total;
}

#endif
