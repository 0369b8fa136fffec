/* rms_norm.h: y = (x * (1 / sqrt(mean(x^2) + eps))) * w, NEON; two registers hold the 8 strided lanes of the sum.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include <arm_neon.h>
#include "kernels/portable/float32.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    float32x4_t lanes0 = vdupq_n_f32(0.0f);
    float32x4_t lanes4 = vdupq_n_f32(0.0f);
    int i = 0;
    for (; i + 8 <= width; i += 8) {
        const float32x4_t values0 = vld1q_f32(x + i);
        const float32x4_t values4 = vld1q_f32(x + i + 4);
        lanes0 = vaddq_f32(lanes0, vmulq_f32(values0, values0));
        lanes4 = vaddq_f32(lanes4, vmulq_f32(values4, values4));
    }
    float lane[8];
    vst1q_f32(lane, lanes0);
    vst1q_f32(lane + 4, lanes4);
    for (int j = i; j < width; j++) {
        lane[j & 7] += x[j] * x[j];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
    for (i = 0; i + 4 <= width; i += 4) {
        vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), factor), vld1q_f32(w + i)));
    }
    for (; i < width; i++) {
        y[i] = (x[i] * factor) * w[i];
    }
}

#endif
