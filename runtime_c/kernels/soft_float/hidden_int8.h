/* hidden_int8.h: the integers of silu(gate) * up, few values of which are ever computed as floats.
 *
 * Of a row only the largest value and the integers are part of the model. An estimate in integers, of a known error, says
 * which values may be the largest, and between which bounds an integer lies. Where that does not decide, for a few in a
 * hundred, the value is computed as the contract has it; so are whole rows where a gate is 64 or more, an up value 2^40, or
 * all values below 2^-60.
 */
#ifndef COLIBRI_HIDDEN_INT8_H
#define COLIBRI_HIDDEN_INT8_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/scale_int8.h"
#include "kernels/portable/soft_float32.h"
#include "kernels/portable/soft_quantise.h"

#define COLIBRI_WILD_GATE 0x42800000u /* fp32 bits of 64 */
#define COLIBRI_WILD_UP 0x53800000u   /* of 2^40 */
#define COLIBRI_FAINT 0x21800000u     /* of 2^-60 */
#define COLIBRI_NEAR 0x2000u          /* bits of floats that differ by 2^-11 or less are not further apart */

/* 2^32 / x of 2^16 <= x <= 2^17, below 2^16; relative error below 2^-14. */
static inline uint32_t colibri_soft_reciprocal(uint32_t x)
{
#ifdef __riscv_div
    return 0xFFFFFFFFu / x;
#else
    uint32_t y = 92520 - (x * 30841 >> 16); /* a line, then two steps of Newton */
    y += (uint32_t)((int32_t)y * ((int32_t)(0u - x * y) >> 13) >> 19);
    y += (uint32_t)((int32_t)y * ((int32_t)(0u - x * y) >> 13) >> 19);
    return y;
#endif
}

/* |silu(gate) * up| as the bits of a float, with a relative error below 2^-12; 0 for what is below 2^-86. Takes the bits
 * of floats, of magnitudes below COLIBRI_WILD_GATE and COLIBRI_WILD_UP. */
static inline uint32_t colibri_soft_hidden(uint32_t gate, uint32_t up)
{
    const uint32_t gate_exponent = colibri_soft_exponent(gate);
    const uint32_t up_exponent = colibri_soft_exponent(up);
    const uint32_t g = colibri_soft_significand(gate) >> 8;
    const uint32_t u = colibri_soft_significand(up) >> 8;

    /* e^-|gate| is p / 2^(16 + n); octaves in units of 2^-24. */
    const uint32_t octaves = g * 47274 + (g >> 2) + (gate & 0xFF) * 185; /* by log2(e) = 47274.23 / 2^15 */
    const uint32_t x = octaves >> colibri_soft_least(133 - gate_exponent, 31);
    const uint32_t n = x >> 24;
    const uint32_t p = colibri_exp2_part((x >> 9) & 0x7FFF);
    const uint32_t reciprocal = colibri_soft_reciprocal(0x10000 + (p >> colibri_soft_least(n, 31)));

    /* The sigmoid is 1 / (1 + e^-|gate|), and below 0 that times e^-|gate|. */
    const uint32_t minus = -(gate >> 31);
    const uint32_t sigmoid = (((p & minus) | (0x10000 & ~minus)) * reciprocal + 0x8000) >> 16;
    uint32_t value = ((sigmoid * g + 0x8000) >> 16) * u; /* 2^28 or more */
    uint32_t zeros = -(uint32_t)(value >> 30 == 0) & 2;
    value <<= zeros;
    const uint32_t last = (value >> 31) ^ 1;
    value <<= last;
    zeros += last;
    const uint32_t exponent = gate_exponent + up_exponent - 126 - (n & minus) - zeros;
    const bool faint = (gate_exponent == 0) | (up_exponent == 0) | (exponent - 41 > 254);
    return ((value << 1 >> 9) + exponent * 0x800000) & -(uint32_t)!faint;
}

/* silu(gate) * up. */
static COLIBRI_APART float colibri_hidden_value(float gate, float up)
{
    colibri_silu_times(&up, &gate, 1);
    return up;
}

/* nearest(silu(gate) * up * inverse), from the estimate if that decides. inverse: bits of a normal number. */
static inline int32_t colibri_hidden_int(uint32_t estimate, float gate, float up, uint32_t inverse, float qmax)
{
    /* In units of 2^-20, its relative error below 2^-11. */
    const uint32_t product = ((estimate >> 8 & 0x7FFF) | 0x8000) * (colibri_soft_significand(inverse) >> 8);
    const uint32_t value = product >> colibri_soft_least(264 - (estimate >> 23) - (inverse >> 23), 31);
    const uint32_t error = (value >> 11) + 2;
    const uint32_t nearest = (value + 0x80000 + error) >> 20;
    if (nearest != (value + 0x80000 - error) >> 20) {
        return colibri_soft_scale(colibri_hidden_value(gate, up), inverse, qmax);
    }
    const uint32_t minus = -((uint32_t)(colibri_bits(gate) ^ colibri_bits(up)) >> 31);
    return (int32_t)((nearest ^ minus) - minus);
}

/* y = the integers of silu(gate) * up, zero padded to stride; estimates: [k]; up is overwritten, or not. */
static COLIBRI_APART void colibri_hidden_int8(int8_t *restrict y, float *restrict scale, int32_t *restrict estimates,
                                              float *restrict up, const float *restrict gate, int k, int stride,
                                              float qmax)
{
    uint32_t most = 0;
    bool wild = false;
    for (int i = 0; i < k; i++) {
        const uint32_t gate_bits = (uint32_t)colibri_bits(gate[i]);
        const uint32_t up_bits = (uint32_t)colibri_bits(up[i]);
        wild |= (gate_bits << 1 >= COLIBRI_WILD_GATE << 1) | (up_bits << 1 >= COLIBRI_WILD_UP << 1);
        const uint32_t estimate = colibri_soft_hidden(gate_bits, up_bits);
        most = colibri_most(most, estimate);
        estimates[i] = (int32_t)estimate;
    }
    if (wild | (most < COLIBRI_FAINT)) {
        colibri_silu_times(up, gate, (uint32_t)k);
        colibri_quantise8(y, scale, up, k, stride, qmax);
        return;
    }
    uint32_t top = 0;
    for (int i = 0; i < k; i++) {
        if ((uint32_t)estimates[i] > most - COLIBRI_NEAR) {
            top = colibri_most(top, (uint32_t)colibri_bits(colibri_abs(colibri_hidden_value(gate[i], up[i]))));
        }
    }
    const uint32_t inverse = (uint32_t)colibri_bits(colibri_inverse(scale, colibri_from_bits((int32_t)top), qmax));
    for (int i = 0; i < k; i++) {
        y[i] = (int8_t)colibri_hidden_int((uint32_t)estimates[i], gate[i], up[i], inverse, qmax);
    }
    volatile int8_t *const padding = y; /* or stores would be merged into words that may not be aligned */
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

#endif
