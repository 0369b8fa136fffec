/* linear.h: what follows a dot product: scales, bias, store.
 *
 * y = ((float)sum * row_scale) * x_scale + bias, in this order; fp32 sums are stored as they are, plus bias.
 * Of matrices in groups, row_scale has the upper 16 bits of fp32 values. Sums of 64 bits are below 2^53.
 * bias may be NULL. count: rows of the tile that exist.
 */
#ifndef COLIBRI_LINEAR_H
#define COLIBRI_LINEAR_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/store_grouped.h"

static inline void colibri_store_scaled(float *restrict y, const int32_t *restrict sum, const float *restrict row_scale,
                                        const float *restrict bias, float x_scale, int count)
{
    for (int i = 0; i < count; i++) {
        float value = (float)sum[i] * row_scale[i];
        value = value * x_scale;
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

/* The nearest float, ties to even: halved until it fits 32 bits, where a one that is lost stays visible as the last bit. */
static inline float colibri_from_wide(int64_t sum)
{
    float scale = 1.0f;
    while (sum != (int32_t)sum) {
        sum = (sum >> 1) | (sum & 1);
        scale = scale * 2.0f;
    }
    return (float)(int32_t)sum * scale;
}

static inline void colibri_store_wide(float *restrict y, const int64_t *restrict sum, const uint16_t *restrict row_scale,
                                      const float *restrict bias, float x_scale, int count)
{
    for (int i = 0; i < count; i++) {
        float value = colibri_from_wide(sum[i]) * colibri_from_upper(row_scale[i]);
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
