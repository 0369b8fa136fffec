/* softmax_int8.h: keys and values of 8 bits with a scale a row, and the softmax between them, in integers.
 *
 * A scale is the upper half of an fp32, never below max|x| / 127: significand 128..255 in units of 2^(exponent - 134).
 * Sums are of integers, so their order is free. Few float operations a head, none a position (but for a bias).
 */
#ifndef COLIBRI_SOFTMAX_INT8_H
#define COLIBRI_SOFTMAX_INT8_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/quantise.h"

#define COLIBRI_LOG2_E 0x1.715476p+0f

/* The significand of a scale, and the biased exponent. */
static inline int32_t colibri_scale_int(uint16_t scale)
{
    return 128 | (scale & 127);
}

static inline uint32_t colibri_scale_power(uint16_t scale)
{
    return (uint32_t)scale >> 7;
}

/* 2^(power - 127), at least 2^-126. */
static inline float colibri_power_of_two(int32_t power)
{
    return colibri_from_bits((power > 1 ? power : 1) * 0x800000);
}

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

/* Scores become how far they lie below the top one, in octaves * 2^27; 32 octaves and more as 2^32 - 1.
 *
 * unit: of a score, in octaves, as fp32: g * 2^(e - 15). A distance d is d' * 2^right (or d' / 2^left), so that d' * g
 * has 27 bits behind the point; d' of more than 16 bits is more than 16 octaves, where a term is nothing. */
static inline void colibri_distances_int8(int32_t *restrict scores, uint32_t count, int32_t top, float unit)
{
    const uint32_t bits = (uint32_t)colibri_bits(unit);
    const uint32_t g = ((bits & 0x7FFFFF) | 0x800000) >> 8;
    const uint32_t exponent = bits >> 23; /* e + 127; the shift to the right is -12 - e */
    const uint32_t right = colibri_least(115 - colibri_least(exponent, 115), 31);
    const uint32_t left = colibri_least(colibri_most(exponent, 115) - 115, 16);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t near = ((uint32_t)top - (uint32_t)scores[i]) >> right;
        scores[i] = (int32_t)((near << left) * g | -(uint32_t)(near > 0xFFFFu >> left));
    }
}

/* 2^-x of octaves * 2^27, times 2^23; relative error below 1.4e-4, and what is below 2^-23 is 0. */
static inline uint32_t colibri_exp2_int(uint32_t x)
{
    const uint32_t f = (x >> 12) & 0x7FFF;
    uint32_t p = 2596;
    p = 15149 - (p * f >> 15);
    p = 45324 - (p * f >> 15);
    p = 65536 - (p * f >> 15);
    return (p << 7) >> (x >> 27);
}

/* Halve a peak so many times if that, or more, brings it down to 32766; returns how often. */
static inline uint32_t colibri_halve(uint64_t *peak, uint32_t times)
{
    const uint64_t large = -(uint64_t)(*peak >> (times - 1) > 32766);
    *peak ^= (*peak ^ (*peak >> times)) & large;
    return times & (uint32_t)large;
}

/* What `colibri_weights_int8` found. */
typedef struct colibri_softmax_int8 {
    float total;     /* of the terms: the top one is 1 */
    int32_t power;   /* weights are in units of 2^(power - 157) */
} colibri_softmax_int8;

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
