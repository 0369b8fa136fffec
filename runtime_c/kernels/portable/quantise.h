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

static inline void colibri_quantise8(int8_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                     int stride, float qmax)
{
    float top = 0.0f;
    for (int i = 0; i < k; i++) {
        float magnitude = colibri_abs(x[i]);
        top = magnitude > top ? magnitude : top;
    }
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = live ? qmax / top : 0.0f;
    *scale = live ? top / qmax : 0.0f;
    for (int i = 0; i < k; i++) {
        float value = x[i] * inverse;
        value = value > -qmax ? value : -qmax;
        value = value < qmax ? value : qmax;
        y[i] = (int8_t)colibri_nearest(value);
    }
    for (int i = k; i < stride; i++) {
        y[i] = 0;
    }
}

static inline void colibri_quantise16(int16_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                      int stride, float qmax)
{
    float top = 0.0f;
    for (int i = 0; i < k; i++) {
        float magnitude = colibri_abs(x[i]);
        top = magnitude > top ? magnitude : top;
    }
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = live ? qmax / top : 0.0f;
    *scale = live ? top / qmax : 0.0f;
    for (int i = 0; i < k; i++) {
        float value = x[i] * inverse;
        value = value > -qmax ? value : -qmax;
        value = value < qmax ? value : qmax;
        y[i] = (int16_t)colibri_nearest(value);
    }
    for (int i = k; i < stride; i++) {
        y[i] = 0;
    }
}

#endif
