/* soft_rms_norm.h: as rms_norm.h, for cores without an FPU.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    float lane[8] = {0.0f};
    for (int i = 0; i < width; i++) {
        lane[i & 7] = colibri_soft_add(lane[i & 7], colibri_soft_times(x[i], x[i]));
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
    for (int i = 0; i < width; i++) {
        y[i] = colibri_soft_times(colibri_soft_times(x[i], factor), w[i]);
    }
}

#endif
