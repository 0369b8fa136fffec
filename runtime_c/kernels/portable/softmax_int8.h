/* softmax_int8.h: keys and values of 8 bits with a scale a row, and the softmax between them, in integers.
 *
 * Sums are of integers, so their order is free. Few float operations a head, none a position (but for a bias).
 */
#ifndef COLIBRI_SOFTMAX_INT8_H
#define COLIBRI_SOFTMAX_INT8_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/quantise.h"
#include "kernels/portable/scale_int8.h"

/* One row into a state: y = nearest(x / scale), within +-127; a quiet row becomes zeros with scale 0. */
static inline void colibri_store_int8(int8_t *restrict y, uint16_t *restrict scale, const float *restrict x,
                                      uint32_t width)
{
    const float top = colibri_largest(x, (int)width);
    const bool live = top >= COLIBRI_QUIET;
    const uint32_t up = ((uint32_t)colibri_bits(top / 127.0f) + 0xFFFF) & 0xFFFF0000;
    const float inverse = colibri_choose(live, 1.0f / colibri_from_bits((int32_t)up), 0.0f);
    *scale = (uint16_t)((up >> 16) & -(uint32_t)live);
    for (uint32_t i = 0; i < width; i++) {
        y[i] = (int8_t)colibri_nearest_scaled(x[i] * inverse, 127.0f);
    }
}

/* The largest exponent of the scales. */
static inline uint32_t colibri_largest_power(const uint16_t *restrict scales, uint32_t stride, uint32_t count)
{
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        top = colibri_most(top, colibri_scale_power(scales[i * stride]));
    }
    return top;
}

/* A product of a query and a key, times the key's significand, in units of the largest exponent: rounded down, as every
 * compiler for these processors shifts. |sum| <= qmax * 127 * width, which the plan keeps below 2^31 / 255. */
static inline int32_t colibri_aligned_int8(int32_t sum, uint16_t scale, uint32_t power)
{
    return (sum * colibri_scale_int(scale)) >> colibri_least(power - colibri_scale_power(scale), 31);
}

/* Distances become weights of 15 bits for values of these scales, the softmax's total apart. No sum of weight * value
 * can pass int32: weights are at most 32767, and their sum at most 2^24 + count / 2, count being at most 2^18. */
static inline colibri_softmax_int8 colibri_weights_int8(int32_t *restrict scores, const uint16_t *restrict scales,
                                                        uint32_t stride, uint32_t count)
{
    const uint32_t power = colibri_largest_power(scales, stride, count);
    uint64_t total = 0;
    uint64_t sum = 0;
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t below = colibri_least(power - colibri_scale_power(scales[i * stride]), 31);
        const uint32_t term = colibri_exp2_int((uint32_t)scores[i]);
        const uint32_t weight = (term * (uint32_t)colibri_scale_int(scales[i * stride])) >> below;
        total += term;
        sum += weight;
        top = colibri_most(top, weight);
        scores[i] = (int32_t)weight;
    }
    uint64_t peak = sum >> 9;
    peak ^= (peak ^ top) & -(uint64_t)(top > peak);
    uint32_t shift = colibri_halve(&peak, 16);
    shift += colibri_halve(&peak, 8);
    shift += colibri_halve(&peak, 4);
    shift += colibri_halve(&peak, 2);
    shift += colibri_halve(&peak, 1);
    const uint32_t half = (1u << shift) >> 1;
    for (uint32_t i = 0; i < count; i++) {
        scores[i] = (int32_t)(((uint32_t)scores[i] + half) >> shift);
    }
    const float whole = (float)(int32_t)(total >> 23);
    const float part = (float)(int32_t)(total & 0x7FFFFF) * 0x1p-23f;
    return (colibri_softmax_int8){whole + part, (int32_t)(power + shift)};
}

#endif
