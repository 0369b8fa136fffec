/* dot_f32.h: 4 rows of an fp32 matrix times one vector, NEON.
 *
 * A lane is a row, so each row keeps its one accumulator, added in ascending column; a product is rounded before
 * it is added (no FMLA).
 * Packing: [k][4] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include <arm_neon.h>

#define COLIBRI_DOT_F32_ROWS 4

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    float32x4_t total = vdupq_n_f32(0.0f);
    for (int i = 0; i < k; i++) {
        total = vaddq_f32(total, vmulq_n_f32(vld1q_f32(w), x[i]));
        w += COLIBRI_DOT_F32_ROWS;
    }
    vst1q_f32(sum, total);
}

#endif
