/* dot_f32.h: 16 rows of an fp32 matrix times one vector, NEON.
 *
 * A lane is a row, so each row keeps its one accumulator, added in ascending column; a product is rounded before
 * it is added (no FMLA).
 * Packing: [k][16] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include <arm_neon.h>

#define COLIBRI_DOT_F32_ROWS 16

/* A column: total plus the products of its 16 weights with a lane of x. */
#define COLIBRI_COLUMN_F32(total, w, x, lane)                                                     \
    do {                                                                                          \
        (total)[0] = vaddq_f32((total)[0], vmulq_laneq_f32(vld1q_f32(w), x, lane));               \
        (total)[1] = vaddq_f32((total)[1], vmulq_laneq_f32(vld1q_f32((w) + 4), x, lane));         \
        (total)[2] = vaddq_f32((total)[2], vmulq_laneq_f32(vld1q_f32((w) + 8), x, lane));         \
        (total)[3] = vaddq_f32((total)[3], vmulq_laneq_f32(vld1q_f32((w) + 12), x, lane));        \
    } while (0)

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    float32x4_t total[4] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    int i = 0;
    for (; i + 4 <= k; i += 4) {
        const float32x4_t four = vld1q_f32(x + i);
        COLIBRI_COLUMN_F32(total, w, four, 0);
        COLIBRI_COLUMN_F32(total, w + 16, four, 1);
        COLIBRI_COLUMN_F32(total, w + 32, four, 2);
        COLIBRI_COLUMN_F32(total, w + 48, four, 3);
        w += 64;
    }
    for (; i < k; i++) {
        const float32x4_t one = vdupq_n_f32(x[i]);
        COLIBRI_COLUMN_F32(total, w, one, 0);
        w += 16;
    }
    for (int part = 0; part < 4; part++) {
        vst1q_f32(sum + 4 * part, total[part]);
    }
}

#endif
