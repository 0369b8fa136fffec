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

/* y = (float)sum * row_scale. A sum of up to 24 bits is its float, and its product with the 8 bits of a row's significand
 * has 32; the others are left to the compiler, as what is no normal number. One function for all shapes. */
static COLIBRI_APART void colibri_soft_store(float *restrict y, const int32_t *restrict sum,
                                             const uint16_t *restrict row_scale, int count)
{
    for (int i = 0; i < count; i++) {
        const uint32_t sign = (uint32_t)sum[i] & 0x80000000u;
        uint32_t product = sign != 0 ? 0 - (uint32_t)sum[i] : (uint32_t)sum[i];
        const uint32_t row = row_scale[i];
        const uint32_t exponent = row >> 7; /* with the sign, which is none */
        if (product - 1 < 0xFFFFFF && exponent - 1 < 229) {
            product *= 128 | (row & 127);
            const uint32_t zeros = colibri_soft_lead(&product);
            const uint32_t bits = colibri_soft_round_byte(product) + (exponent + 23 - zeros) * 0x800000;
            y[i] = colibri_from_bits((int32_t)(bits + sign));
        } else {
            y[i] = (float)sum[i] * colibri_from_upper(row_scale[i]);
        }
    }
}

static inline void colibri_store_grouped(float *restrict y, const int32_t *restrict sum,
                                         const uint16_t *restrict row_scale, const float *restrict bias, float x_scale,
                                         int count)
{
    colibri_soft_store(y, sum, row_scale, count);
    colibri_soft_scale_row(y, y, x_scale, count);
    for (int i = 0; bias != NULL && i < count; i++) {
        y[i] = y[i] + bias[i];
    }
}

#endif
