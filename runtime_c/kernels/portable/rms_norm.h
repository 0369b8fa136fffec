/* rms_norm.h: y = (x * (1 / sqrt(mean(x^2) + eps))) * w; the sum runs in 8 strided lanes.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include "kernels/portable/float32.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    float lane[8] = {0.0f};
    for (int i = 0; i < width; i++) {
        lane[i & 7] += x[i] * x[i];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
    for (int i = 0; i < width; i++) {
        y[i] = (x[i] * factor) * w[i];
    }
}

#endif
