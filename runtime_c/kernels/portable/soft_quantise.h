/* soft_quantise.h: as quantise.h, for cores without an FPU: product and rounding of an element are one, in integers.
 *
 * Of |x| up to the largest magnitude the product is within +-qmax but for its rounding, so it needs no bounds. Where the
 * multiplier is no normal number, which is rare, floats do it.
 */
#ifndef COLIBRI_QUANTISE_H
#define COLIBRI_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_multiply.h"

#define COLIBRI_QUIET 0x1p-100f

/* The largest magnitude; NaN counts as 0. Magnitudes are ordered like their bits, which need no branch to compare. */
static inline float colibri_largest(const float *x, int k)
{
    /* Without their sign and above a bias, bits of a NaN pass 2^32 and count as less than those of zero. */
    const uint32_t zero = 0x00FFFFFF;
    uint32_t top = zero;
    for (int i = 0; i < k; i++) {
        top = colibri_most(top, ((uint32_t)colibri_bits(x[i]) << 1) + zero);
    }
    return colibri_from_bits((int32_t)((top - zero) >> 1));
}

/* nearest(x * inverse); -qmax for NaN. inverse: bits of a normal number. */
static inline int32_t colibri_soft_scale(float x, uint32_t inverse, float qmax)
{
    const uint32_t bits = (uint32_t)colibri_bits(x);
    const uint32_t exponent = colibri_soft_exponent(bits);
    if (exponent == 255) {
        return -(int32_t)qmax; /* no infinity: the multiplier would be 0 */
    }
    const uint32_t product = colibri_soft_product(colibri_soft_significand(bits), colibri_soft_significand(inverse));
    const uint32_t top = product >> 31;
    /* 150 less the exponent of the product; from 8 up, as |product| < 2^16. A denormal x is as good as nothing. */
    const uint32_t shift = colibri_soft_least(277 - exponent - colibri_soft_exponent(inverse) - top, 31);
    const uint32_t nearest = colibri_soft_round(colibri_soft_top_bits(product, top), shift);
    const uint32_t minus = -(bits >> 31);
    return (int32_t)((nearest ^ minus) - minus);
}

/* What to multiply a row with; scale: what to multiply its integers with. */
static inline float colibri_inverse(float *restrict scale, float top, float qmax)
{
    const bool live = top >= COLIBRI_QUIET;
    *scale = colibri_choose(live, top / qmax, 0.0f);
    return colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
}

/* The same with the largest magnitude given, and no padding; returns the scale. */
static inline float colibri_quantise8_by(int8_t *restrict y, const float *restrict x, int k, float top, float qmax)
{
    float scale;
    const float inverse = colibri_inverse(&scale, top, qmax);
    const uint32_t bits = (uint32_t)colibri_bits(inverse);
    const bool normal = bits >= 0x800000;
    for (int i = 0; i < k; i++) {
        y[i] = (int8_t)(normal ? colibri_soft_scale(x[i], bits, qmax) : colibri_nearest_scaled(x[i] * inverse, qmax));
    }
    return scale;
}

static inline void colibri_quantise8(int8_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                     int stride, float qmax)
{
    volatile int8_t *const padding = y; /* or stores would be merged into words that may not be aligned */
    *scale = colibri_quantise8_by(y, x, k, colibri_largest(x, k), qmax);
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

static inline void colibri_quantise16(int16_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                      int stride, float qmax)
{
    volatile int16_t *const padding = y;
    const float inverse = colibri_inverse(scale, colibri_largest(x, k), qmax);
    const uint32_t bits = (uint32_t)colibri_bits(inverse);
    const bool normal = bits >= 0x800000;
    for (int i = 0; i < k; i++) {
        y[i] = (int16_t)(normal ? colibri_soft_scale(x[i], bits, qmax) : colibri_nearest_scaled(x[i] * inverse, qmax));
    }
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

#endif
