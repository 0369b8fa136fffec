/* rms_norm.h: y = (x * (1 / sqrt(mean(x^2) + eps))) * w; the sum runs in 8 strided lanes, each of them in a register.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include "kernels/portable/float32.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    float lane[8] = {0.0f};
    const int whole = width & ~7;
    for (int i = 0; i < whole; i += 8) {
        lane[0] += x[i] * x[i];
        lane[1] += x[i + 1] * x[i + 1];
        lane[2] += x[i + 2] * x[i + 2];
        lane[3] += x[i + 3] * x[i + 3];
        lane[4] += x[i + 4] * x[i + 4];
        lane[5] += x[i + 5] * x[i + 5];
        lane[6] += x[i + 6] * x[i + 6];
        lane[7] += x[i + 7] * x[i + 7];
    }
    for (int i = whole; i < width; i++) {
        lane[i & 7] += x[i] * x[i];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
#pragma GCC unroll 4
    for (int i = 0; i < width; i++) {
        y[i] = (x[i] * factor) * w[i];
    }
}

#endif
