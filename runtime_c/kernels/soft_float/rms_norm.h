/* rms_norm.h: as portable/rms_norm.h, for cores without an FPU: sums of squares, which are positive, in integers.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_float.h"

/* x * x of an x from 2^-40 to below 2^56; bits of floats. */
static inline uint32_t colibri_soft_square(uint32_t x)
{
    return colibri_soft_rounded_product(x, x) + (2 * (x >> 23) - 128) * 0x800000;
}

/* 1 / sqrt(mean(x^2) + eps). */
COLIBRI_SHARED float colibri_norm_factor(const float *restrict x, int width, float eps)
{
    uint32_t lane[8] = {0};
    bool unusual = false;
    for (int i = 0; i < width; i++) {
        const uint32_t magnitude = (uint32_t)colibri_bits(x[i]) << 1;
        if (magnitude - 0x57000000u < 0x60000000u) {
            lane[i & 7] = colibri_soft_plus(lane[i & 7], colibri_soft_square(magnitude >> 1));
        } else {
            unusual |= magnitude != 0;
        }
    }
    float sum[8];
    for (int i = 0; i < 8; i++) {
        sum[i] = colibri_from_bits((int32_t)lane[i]);
    }
    if (unusual) {
        for (int i = 0; i < 8; i++) {
            sum[i] = 0.0f;
        }
        for (int i = 0; i < width; i++) {
            sum[i & 7] = sum[i & 7] + x[i] * x[i];
        }
    }
    const float mean = colibri_soft_over(colibri_lane_tree(sum), (float)width);
    return colibri_soft_over(1.0f, colibri_sqrt(mean + eps));
}

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    const float factor = colibri_norm_factor(x, width, eps);
    colibri_soft_scale_row(y, x, factor, width);
    for (int i = 0; i < width; i++) {
        y[i] = colibri_soft_times(y[i], w[i]);
    }
}

#endif
