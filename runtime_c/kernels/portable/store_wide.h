/* store_wide.h: scales, bias and store behind dot products whose sums have 64 bits, below 2^53: see linear.h.
 */
#ifndef COLIBRI_STORE_WIDE_H
#define COLIBRI_STORE_WIDE_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/store_grouped.h"

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

#endif
