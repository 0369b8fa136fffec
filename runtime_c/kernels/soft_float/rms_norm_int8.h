/* rms_norm_int8.h: rms_norm.h, then quantise.h to 8 bits, where nothing else reads what is normalised.
 *
 * Products in integers, of a known error, say which values may be the largest and what most integers are; the others are
 * computed as the contract has it. So are rows whose elements or weights, or their products, are far from 1.
 */
#ifndef COLIBRI_RMS_NORM_INT8_H
#define COLIBRI_RMS_NORM_INT8_H

#include <stdint.h>
#include "kernels/portable/soft_quantise.h"
#include "kernels/soft_float/estimate.h"
#include "kernels/soft_float/rms_norm.h"

/* |x * w|, bits of floats, with a relative error below 2^-13; unusual: its sign is set where that is not so. */
static inline uint32_t colibri_norm_estimate(uint32_t x, uint32_t w, uint32_t *restrict unusual)
{
    *unusual |= 254 - colibri_soft_exponent(w); /* also where x is 0, which times infinity is no number */
    if ((x << 1 == 0) | (w << 1 == 0)) {
        return 0;
    }
    const uint32_t x_exponent = colibri_soft_exponent(x);
    const uint32_t w_exponent = colibri_soft_exponent(w);
    *unusual |= (x_exponent - 87) | (186 - x_exponent) | (w_exponent - 97) | (156 - w_exponent);
    const uint32_t product = (colibri_soft_significand(x) >> 8) * (colibri_soft_significand(w) >> 8);
    const uint32_t small = (product >> 31) ^ 1;
    return (product << small << 1 >> 9) + (x_exponent + w_exponent - 126 - small) * 0x800000;
}

static inline float colibri_norm_value(float x, float factor, float w)
{
    return colibri_soft_times(colibri_soft_times(x, factor), w);
}

/* y = the integers of x * factor * w, zero padded to stride. values: [width], overwritten. */
COLIBRI_SHARED void colibri_rms_norm_int8(int8_t *restrict y, float *restrict scale, float *restrict values,
                                          const float *restrict x, const float *restrict w, int width, int stride,
                                          float eps, float qmax)
{
    const float factor = colibri_norm_factor(x, width, eps);
    const uint32_t factor_bits = (uint32_t)colibri_bits(factor);
    uint32_t unusual = ((factor_bits >> 23) - 67) | (186 - (factor_bits >> 23));
    uint32_t most = 0;
    for (int i = 0; i < width; i++) {
        const uint32_t x_bits = (uint32_t)colibri_bits(x[i]);
        const uint32_t w_bits = (uint32_t)colibri_bits(w[i]);
        const uint32_t estimate = colibri_norm_estimate(x_bits, w_bits, &unusual);
        most = estimate > most ? estimate : most;
        values[i] = colibri_from_bits((int32_t)(estimate | ((x_bits ^ w_bits) & 0x80000000u)));
    }
    uint32_t top = 0;
    for (int i = 0; i < width && unusual >> 31 == 0; i++) {
        if (colibri_may_be_largest(values[i], most)) {
            top = colibri_most(top, (uint32_t)colibri_bits(colibri_norm_value(x[i], factor, w[i])) & 0x7FFFFFFF);
        }
    }
    if (top < COLIBRI_FAINT) {
        for (int i = 0; i < width; i++) {
            values[i] = colibri_norm_value(x[i], factor, w[i]);
        }
        colibri_quantise8(y, scale, values, width, stride, qmax);
        return;
    }
    const float inverse = colibri_inverse(scale, colibri_from_bits((int32_t)top), qmax);
    const uint32_t multiplier = (uint32_t)colibri_bits(inverse * factor);
    for (int i = 0; i < width; i++) {
        if (!colibri_quantise_estimate(y + i, values[i], multiplier)) {
            const float value = colibri_norm_value(x[i], factor, w[i]);
            y[i] = (int8_t)colibri_soft_scale(value, (uint32_t)colibri_bits(inverse), qmax);
        }
    }
    colibri_pad_int8(y, width, stride);
}

#endif
