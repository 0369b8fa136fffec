/* layer_norm.h: y = ((x - mean) * (1 / sqrt(mean((x - mean)^2) + eps))) * w + b; both sums run in 8 strided lanes.
 */
#ifndef COLIBRI_LAYER_NORM_H
#define COLIBRI_LAYER_NORM_H

#include "kernels/portable/float32.h"

static inline void colibri_layer_norm(float *restrict y, const float *restrict x, const float *restrict w,
                                      const float *restrict b, int width, float eps)
{
    float lane[8] = {0.0f};
    for (int i = 0; i < width; i++) {
        lane[i & 7] += x[i];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    float square[8] = {0.0f};
    for (int i = 0; i < width; i++) {
        y[i] = x[i] - mean;
        square[i & 7] += y[i] * y[i];
    }
    const float factor = 1.0f / colibri_sqrt(colibri_lane_tree(square) / (float)width + eps);
    for (int i = 0; i < width; i++) {
        y[i] = (y[i] * factor) * w[i] + b[i];
    }
}

#endif
