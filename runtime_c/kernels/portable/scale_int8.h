/* scale_int8.h: scales of rows of 8 bits, and the steps of a softmax in integers; see softmax_int8.h.
 *
 * A scale is the upper half of an fp32, never below max|x| / 127: significand 128..255 in units of 2^(exponent - 134).
 */
#ifndef COLIBRI_SCALE_INT8_H
#define COLIBRI_SCALE_INT8_H

#include <stdint.h>
#include "kernels/portable/float32.h"

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

/* 2^-f of 15 bits behind the point, times 2^16; relative error below 1.4e-4. */
static inline uint32_t colibri_exp2_part(uint32_t f)
{
    uint32_t p = 2596;
    p = 15149 - (p * f >> 15);
    p = 45324 - (p * f >> 15);
    return 65536 - (p * f >> 15);
}

/* 2^-x of octaves * 2^27, times 2^23; relative error below 1.4e-4, and what is below 2^-23 is 0. */
static inline uint32_t colibri_exp2_int(uint32_t x)
{
    return (colibri_exp2_part((x >> 12) & 0x7FFF) << 7) >> (x >> 27);
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

#endif
