/* linear.h: what follows a dot product: scales, bias, store.
 *
 * y = ((float)sum * row_scale) * x_scale + bias, in this order; fp32 sums are stored as they are, plus bias.
 * Of matrices in groups, row_scale has the upper 16 bits of fp32 values. For sums of 64 bits see store_wide.h.
 * bias may be NULL. count: rows of the tile that exist.
 */
#ifndef COLIBRI_LINEAR_H
#define COLIBRI_LINEAR_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/store_grouped.h"
#include "kernels/portable/store_wide.h"

static inline void colibri_store_scaled(float *restrict y, const int32_t *restrict sum, const float *restrict row_scale,
                                        const float *restrict bias, float x_scale, int count)
{
    for (int i = 0; i < count; i++) {
        float value = (float)sum[i] * row_scale[i];
        value = value * x_scale;
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

static inline void colibri_store(float *restrict y, const float *restrict sum, const float *restrict bias, int count)
{
    for (int i = 0; i < count; i++) {
        y[i] = bias != NULL ? sum[i] + bias[i] : sum[i];
    }
}

#endif
