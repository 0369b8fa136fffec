/* dot_f16.h: 16 rows of a matrix of half precision times one vector of fp32, NEON.
 *
 * As dot_f32, of weights that became fp32, which is exact.
 * Packing: [k][16] fp16, none infinite or NaN, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F16_H
#define COLIBRI_DOT_F16_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_F16_ROWS 16

/* A column: total plus the products of its 16 weights with a lane of x. */
#define COLIBRI_COLUMN_F16(total, w, x, lane)                                                              \
    do {                                                                                                   \
        const float16x8_t first = vreinterpretq_f16_u16(vld1q_u16(w));                                     \
        const float16x8_t second = vreinterpretq_f16_u16(vld1q_u16((w) + 8));                              \
        (total)[0] = vaddq_f32((total)[0], vmulq_laneq_f32(vcvt_f32_f16(vget_low_f16(first)), x, lane));   \
        (total)[1] = vaddq_f32((total)[1], vmulq_laneq_f32(vcvt_high_f32_f16(first), x, lane));            \
        (total)[2] = vaddq_f32((total)[2], vmulq_laneq_f32(vcvt_f32_f16(vget_low_f16(second)), x, lane));  \
        (total)[3] = vaddq_f32((total)[3], vmulq_laneq_f32(vcvt_high_f32_f16(second), x, lane));           \
    } while (0)

static inline void colibri_dot_f16(float sum[COLIBRI_DOT_F16_ROWS], const uint16_t *restrict w,
                                   const float *restrict x, int k)
{
    float32x4_t total[4] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    int i = 0;
    for (; i + 4 <= k; i += 4) {
        const float32x4_t four = vld1q_f32(x + i);
        COLIBRI_COLUMN_F16(total, w, four, 0);
        COLIBRI_COLUMN_F16(total, w + 16, four, 1);
        COLIBRI_COLUMN_F16(total, w + 32, four, 2);
        COLIBRI_COLUMN_F16(total, w + 48, four, 3);
        w += 64;
    }
    for (; i < k; i++) {
        const float32x4_t one = vdupq_n_f32(x[i]);
        COLIBRI_COLUMN_F16(total, w, one, 0);
        w += 16;
    }
    for (int part = 0; part < 4; part++) {
        vst1q_f32(sum + 4 * part, total[part]);
    }
}

#endif
