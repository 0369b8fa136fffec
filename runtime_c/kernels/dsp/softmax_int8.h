/* softmax_int8.h: as portable/softmax_int8.h, for Cortex-M with the DSP extension.
 *
 * Shifts by a register's lowest byte need no bound. Two weights share a word of the scores.
 */
#ifndef COLIBRI_SOFTMAX_INT8_H
#define COLIBRI_SOFTMAX_INT8_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/dsp/quantise.h"
#include "kernels/portable/float32.h"
#include "kernels/portable/scale_int8.h"
#include "kernels/portable/shared.h"

/* x shifted to the right by 0 to 255 bits. */
static inline int32_t colibri_shift_signed(int32_t x, uint32_t bits)
{
    int32_t y;
    __asm__("asr %0, %1, %2" : "=r"(y) : "r"(x), "r"(bits));
    return y;
}

static inline uint32_t colibri_shift_unsigned(uint32_t x, uint32_t bits)
{
    uint32_t y;
    __asm__("lsr %0, %1, %2" : "=r"(y) : "r"(x), "r"(bits));
    return y;
}

/* One row into a state: y = nearest(x / scale), within +-127; a quiet row becomes zeros with scale 0. */
static inline void colibri_store_int8(int8_t *restrict y, uint16_t *restrict scale, const float *restrict x,
                                      uint32_t width)
{
    bool finite;
    const float top = colibri_largest_finite(&finite, x, (int)width);
    const bool live = top >= COLIBRI_QUIET;
    const uint32_t up = ((uint32_t)colibri_bits(top / 127.0f) + 0xFFFF) & 0xFFFF0000;
    const float inverse = colibri_choose(live, 1.0f / colibri_from_bits((int32_t)up), 0.0f);
    *scale = (uint16_t)((up >> 16) & -(uint32_t)live);
    colibri_scale8(y, x, (int)width, inverse, 127.0f, finite);
}

/* The largest exponent of the scales: that of the largest one. */
static inline uint32_t colibri_largest_power(const uint16_t *restrict scales, uint32_t stride, uint32_t count)
{
    uint32_t top = 0;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < count; i++) {
        top = colibri_most(top, scales[i * stride]);
    }
    return top >> 7;
}

static inline int32_t colibri_aligned_int8(int32_t sum, uint16_t scale, uint32_t power)
{
    return colibri_shift_signed(sum * colibri_scale_int(scale), power - colibri_scale_power(scale));
}

/* Weights as there, with the largest exponent of the scales given, but weight i is in the upper half of word i / 2 where i
 * is odd, else in the lower half. */
COLIBRI_SHARED colibri_softmax_int8 colibri_weights_power_int8(int32_t *restrict scores,
                                                               const uint16_t *restrict scales, uint32_t stride,
                                                               uint32_t count, uint32_t power)
{
    uint64_t total = 0;
    uint64_t sum = 0;
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t scale = scales[i * stride];
        const uint32_t term = colibri_exp2_int((uint32_t)scores[i]);
        const uint32_t weight = colibri_shift_unsigned(term * (uint32_t)colibri_scale_int(scale),
                                                       power - colibri_scale_power(scale));
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
    uint32_t *const pairs = (uint32_t *)scores;
    uint32_t i = 0;
    for (; i + 2 <= count; i += 2) {
        const uint32_t even = ((uint32_t)scores[i] + half) >> shift;
        const uint32_t odd = ((uint32_t)scores[i + 1] + half) >> shift;
        pairs[i / 2] = even | odd << 16;
    }
    if (i < count) {
        pairs[i / 2] = ((uint32_t)scores[i] + half) >> shift;
    }
    const float whole = (float)(int32_t)(total >> 23);
    const float part = (float)(int32_t)(total & 0x7FFFFF) * 0x1p-23f;
    return (colibri_softmax_int8){whole + part, (int32_t)(power + shift)};
}

static inline colibri_softmax_int8 colibri_weights_int8(int32_t *restrict scores, const uint16_t *restrict scales,
                                                        uint32_t stride, uint32_t count)
{
    return colibri_weights_power_int8(scores, scales, stride, count, colibri_largest_power(scales, stride, count));
}

#endif
