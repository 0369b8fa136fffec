/* softmax_int8.h: as portable/softmax_int8.h, for cores without an FPU: rows stored without floats, sums in two words.
 */
#ifndef COLIBRI_SOFTMAX_INT8_H
#define COLIBRI_SOFTMAX_INT8_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/scale_int8.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/soft_quantise.h"

/* x shifted to the right by 0 to 255 bits. Arm shifts by the lowest byte of a register, others by five bits. */
static inline int32_t colibri_shift_signed(int32_t x, uint32_t bits)
{
#ifdef __arm__
    __asm__(".syntax unified\n\tasrs %0, %1" : "+l"(x) : "l"(bits) : "cc");
    return x;
#else
    return x >> (bits < 31 ? bits : 31);
#endif
}

/* The same of x below 2^31. */
static inline uint32_t colibri_shift_unsigned(uint32_t x, uint32_t bits)
{
#ifdef __arm__
    __asm__(".syntax unified\n\tlsrs %0, %1" : "+l"(x) : "l"(bits) : "cc");
    return x;
#else
    return x >> (bits < 31 ? bits : 31);
#endif
}

/* One row into a state: y = nearest(x / scale), within +-127; a quiet row becomes zeros with scale 0. */
COLIBRI_SHARED void colibri_store_int8(int8_t *restrict y, uint16_t *restrict scale, const float *restrict x,
                                       uint32_t width)
{
    const float top = colibri_largest(x, (int)width);
    uint32_t up = 0;
    float inverse = 0.0f;
    if (top >= COLIBRI_QUIET) {
        up = ((uint32_t)colibri_bits(colibri_soft_over(top, 127.0f)) + 0xFFFF) & 0xFFFF0000;
        inverse = colibri_soft_over(1.0f, colibri_from_bits((int32_t)up));
    }
    *scale = (uint16_t)(up >> 16);
    const uint32_t bits = (uint32_t)colibri_bits(inverse);
    for (uint32_t i = 0; i < width; i++) {
        y[i] = (int8_t)(bits != 0 ? colibri_soft_scale(x[i], bits, 127.0f)
                                  : colibri_nearest_scaled(x[i] * inverse, 127.0f));
    }
}

/* The largest exponent of the scales: that of the largest one. */
static inline uint32_t colibri_largest_power(const uint16_t *restrict scales, uint32_t stride, uint32_t count)
{
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t scale = scales[i * stride];
        if (scale > top) {
            top = scale;
        }
    }
    return top >> 7;
}

/* A product of a query and a key, times the key's significand, in units of the largest exponent; see the portable one. */
static inline int32_t colibri_aligned_int8(int32_t sum, uint16_t scale, uint32_t power)
{
    return colibri_shift_signed(sum * colibri_scale_int(scale), power - colibri_scale_power(scale));
}

/* Distances become weights, as the portable one has them. */
COLIBRI_SHARED colibri_softmax_int8 colibri_weights_int8(int32_t *restrict scores, const uint16_t *restrict scales,
                                                         uint32_t stride, uint32_t count)
{
    const uint32_t power = colibri_largest_power(scales, stride, count);
    uint32_t total = 0;
    uint32_t total_carry = 0;
    uint32_t sum = 0;
    uint32_t sum_carry = 0;
    uint32_t top = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t x = (uint32_t)scores[i];
        uint32_t weight = 0;
        if (x < 24u << 27) { /* else the term is 0 */
            const uint16_t scale = scales[i * stride];
            const uint32_t term = colibri_exp2_int(x);
            weight =
                colibri_shift_unsigned(term * (uint32_t)colibri_scale_int(scale), power - colibri_scale_power(scale));
            total += term;
            if (total < term) {
                total_carry++;
            }
            sum += weight;
            if (sum < weight) {
                sum_carry++;
            }
            if (weight > top) {
                top = weight;
            }
        }
        scores[i] = (int32_t)weight;
    }
    uint64_t peak = ((uint64_t)sum_carry << 23) | (sum >> 9);
    peak = top > peak ? top : peak;
    uint32_t shift = 0;
    while (peak >> 16 != 0) {
        peak >>= 1;
        shift++;
    }
    for (uint32_t rest = (uint32_t)peak; rest > 32766; rest >>= 1) {
        shift++;
    }
    const uint32_t half = (1u << shift) >> 1;
    for (uint32_t i = 0; i < count; i++) {
        scores[i] = (int32_t)(((uint32_t)scores[i] + half) >> shift);
    }
    const float whole = (float)(int32_t)((total_carry << 9) | (total >> 23));
    const float part = (float)(int32_t)(total & 0x7FFFFF) * 0x1p-23f;
    return (colibri_softmax_int8){whole + part, (int32_t)(power + shift)};
}

#endif
