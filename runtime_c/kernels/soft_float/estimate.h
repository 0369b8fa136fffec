/* estimate.h: what kernels share that estimate, with a known error, values which only a quantiser reads.
 */
#ifndef COLIBRI_ESTIMATE_H
#define COLIBRI_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/linear.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_multiply.h"

/* Bits of floats. */
#define COLIBRI_FAINT 0x21800000u          /* 2^-60 */
#define COLIBRI_LEAST_ESTIMATE 0x14800000u /* 2^-86 */
#define COLIBRI_NEAR 0x2000u               /* those that differ by 2^-11 or less are not further apart */

/* A magnitude other than 0 times the scale of its row, significand * 2^(exponent - 158), cut to 31 bits or more; the
 * highest bit of a significand is set. Returns the exponent, as that of a float. grouped: of 24 bits times a scale of 8. */
COLIBRI_INSIDE uint32_t colibri_row_number(uint32_t *restrict significand, uint32_t magnitude, uint32_t scale,
                                           bool grouped)
{
    uint32_t value = magnitude;
    if (grouped) {
        value *= 128 | (scale >> 16 & 127);
        const uint32_t zeros = colibri_soft_lead(&value);
        *significand = value;
        return (scale >> 23) + 24 - zeros;
    }
    const uint32_t zeros = colibri_soft_lead(&value);
    value = colibri_soft_product(value >> 8, colibri_soft_significand(scale));
    const uint32_t small = (value >> 31) ^ 1;
    *significand = value << small;
    return (scale >> 23) + 32 - zeros - small;
}

/* What a sum stands for as the contract has it; scale: [rows], fp32, or NULL where upper has the upper 16 bits. */
static inline float colibri_row_value(int32_t sum, const float *scale, const uint16_t *upper, int i, float x_scale)
{
    float value;
    if (upper != NULL) {
        colibri_store_grouped(&value, &sum, upper + i, NULL, x_scale, 1);
    } else {
        colibri_store_scaled(&value, &sum, scale + i, NULL, x_scale, 1);
    }
    return value;
}

/* Whether a value may be the largest, given estimates of it and of the largest magnitude, that one as the bits of a float. */
static inline bool colibri_may_be_largest(float estimate, uint32_t most)
{
    return ((uint32_t)colibri_bits(estimate) & 0x7FFFFFFF) > most - COLIBRI_NEAR;
}

/* The nearest integer, up to 127, of an estimate times a multiplier, bits of a float; false where the error leaves two. */
static inline bool colibri_quantise_estimate(int8_t *restrict y, float estimate, uint32_t multiplier)
{
    const uint32_t bits = (uint32_t)colibri_bits(estimate);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t minus = -(bits >> 31);
    /* In units of 2^-20, its relative error below 2^-11. */
    const uint32_t product = ((magnitude >> 8 & 0x7FFF) | 0x8000) * (colibri_soft_significand(multiplier) >> 8);
    const uint32_t value = product >> colibri_soft_least(264 - (magnitude >> 23) - (multiplier >> 23), 31);
    const uint32_t error = (value >> 11) + 2;
    const uint32_t nearest = (value + 0x80000 + error) >> 20;
    *y = (int8_t)((nearest ^ minus) - minus);
    return nearest == (value + 0x80000 - error) >> 20;
}

/* Zeros behind the k integers of a row. */
static inline void colibri_pad_int8(int8_t *restrict y, int k, int stride)
{
    volatile int8_t *const padding = y; /* or stores would be merged into words that may not be aligned */
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

#endif
