/* soft_store_grouped.h: as store_grouped.h, for cores without an FPU.
 */
#ifndef COLIBRI_STORE_GROUPED_H
#define COLIBRI_STORE_GROUPED_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_multiply.h"

/* An fp32 value by its upper 16 bits. */
static inline float colibri_from_upper(uint16_t upper)
{
    return colibri_from_bits((int32_t)((uint32_t)upper << 16));
}

/* x * y of such a y: its significand has 8 bits, and the product 32. */
static inline float colibri_soft_multiply_upper(float x, uint16_t y)
{
    const uint32_t a = (uint32_t)colibri_bits(x);
    const uint32_t product = colibri_soft_significand(a) * (128u | (y & 127));
    const uint32_t top = product >> 31;
    const uint32_t below = colibri_soft_exponent(a) - 1;
    const uint32_t other = (((uint32_t)y >> 7) & 0xFF) - 1;
    const uint32_t exponent = below + other + top - 126;
    if ((below >= 254) | (other >= 254) | (exponent >= 253)) {
        return x * colibri_from_upper(y);
    }
    const uint32_t magnitude = colibri_soft_round(product, 7 + top) + exponent * 0x800000;
    const uint32_t sign = (a ^ (uint32_t)y << 16) & 0x80000000u;
    return colibri_from_bits((int32_t)(sign | magnitude));
}

/* One row. A function of its own: the call costs little beside it. */
static COLIBRI_APART float colibri_soft_scaled(int32_t sum, uint16_t row_scale, float x_scale)
{
    return colibri_soft_multiply(colibri_soft_multiply_upper((float)sum, row_scale), x_scale);
}

static inline void colibri_store_grouped(float *restrict y, const int32_t *restrict sum,
                                         const uint16_t *restrict row_scale, const float *restrict bias, float x_scale,
                                         int count)
{
    for (int i = 0; i < count; i++) {
        const float value = colibri_soft_scaled(sum[i], row_scale[i], x_scale);
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

#endif
