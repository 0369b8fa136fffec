/* store_grouped.h: scales, bias and store of sums of a matrix in groups; see linear.h.
 */
#ifndef COLIBRI_STORE_GROUPED_H
#define COLIBRI_STORE_GROUPED_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

/* An fp32 value by its upper 16 bits. */
static inline float colibri_from_upper(uint16_t upper)
{
    return colibri_from_bits((int32_t)((uint32_t)upper << 16));
}

static inline void colibri_store_grouped(float *restrict y, const int32_t *restrict sum,
                                         const uint16_t *restrict row_scale, const float *restrict bias, float x_scale,
                                         int count)
{
    for (int i = 0; i < count; i++) {
        float value = (float)sum[i] * colibri_from_upper(row_scale[i]);
        value = value * x_scale;
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

#endif
