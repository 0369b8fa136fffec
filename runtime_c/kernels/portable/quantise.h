/* quantise.h: one row of activations to integers, with its scale.
 *
 * scale = max|x| / qmax; y = nearest(x * (qmax / max|x|)), ties to even, within -qmax..qmax. A row whose largest
 * magnitude is below 2^-100 becomes zeros with scale 0; NaN becomes -qmax. y is padded with zeros up to stride.
 */
#ifndef COLIBRI_QUANTISE_H
#define COLIBRI_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

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

/* The same with the largest magnitude given, and no padding; returns the scale. */
static inline float colibri_quantise8_by(int8_t *restrict y, const float *restrict x, int k, float top, float qmax)
{
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    for (int i = 0; i < k; i++) {
        y[i] = (int8_t)colibri_nearest_scaled(x[i] * inverse, qmax);
    }
    return colibri_choose(live, top / qmax, 0.0f);
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
    const float top = colibri_largest(x, k);
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    *scale = colibri_choose(live, top / qmax, 0.0f);
    for (int i = 0; i < k; i++) {
        y[i] = (int16_t)colibri_nearest_scaled(x[i] * inverse, qmax);
    }
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

#endif
