/* hidden_int8.h: hidden values of a gated expert, silu(gate) * up, from the integer sums of both to 8 bits.
 *
 * Of a row only the largest value and the integers are part of the model, so few values are ever computed as floats. An
 * estimate in integers, of a known error, says which ones may be the largest, and between which bounds an integer lies.
 * Where that does not decide, for a few in a hundred, the value is computed as the contract has it; so are whole rows
 * with a gate of 88 or more, with sums or scales of no usual size, or with no value above 2^-60.
 */
#ifndef COLIBRI_HIDDEN_INT8_H
#define COLIBRI_HIDDEN_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/linear.h"
#include "kernels/portable/scale_int8.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_float32.h"
#include "kernels/portable/soft_quantise.h"
#include "kernels/soft_float/estimate.h"

/* The sums of a matrix, and the scales of its rows: fp32, or NULL where upper has the upper 16 bits of them. */
typedef struct colibri_row_sums {
    const int32_t *sums;
    const float *scale;
    const uint16_t *upper;
} colibri_row_sums;

/* What was met in a row, to tell afterwards whether its estimates hold. */
typedef struct colibri_hidden_row {
    uint32_t most;    /* of the estimates */
    uint32_t unusual; /* its sign: whether there was a sum, a scale or a product of both that is not estimated */
} colibri_hidden_row;

/* 2^32 / x of 2^16 <= x <= 2^17, below 2^16; relative error below 2^-14. */
static inline uint32_t colibri_soft_reciprocal(uint32_t x)
{
#ifdef __riscv_div
    return 0xFFFFFFFFu / x;
#else
    uint32_t slope = 30841;
    __asm__("" : "+r"(slope)); /* or gcc makes seven shifts and sums of one multiplication */
    uint32_t y = 92520 - (x * slope >> 16); /* a line, then two steps of Newton */
    y += (uint32_t)((int32_t)y * ((int32_t)(0u - x * y) >> 13) >> 19);
    y += (uint32_t)((int32_t)y * ((int32_t)(0u - x * y) >> 13) >> 19);
    return y;
#endif
}

/* sigmoid(gate * x_scale) * 2^(16 + n), with a relative error below 2^-12; returns n. gate: significand *
 * 2^(exponent - 158). octaves: x_scale times log2(e), the bits of a float. minus: the sign of gate as a mask. */
COLIBRI_INSIDE uint32_t colibri_hidden_sigmoid(uint32_t *restrict sigmoid, uint32_t significand, uint32_t exponent,
                                               uint32_t minus, uint32_t octaves)
{
    /* e^-|gate| is p / 2^(16 + n); octaves in units of 2^-24. */
    const uint32_t g = significand >> 16;
    const uint32_t factor = colibri_soft_significand(octaves) >> 8;
    const uint32_t product = g * factor + ((significand >> 8 & 0xFF) * factor >> 8) + (g * (octaves & 0xFF) >> 8);
    const uint32_t x = product >> (colibri_soft_least(260 - exponent - (octaves >> 23), 31) & 31); /* unusual: any */
    const uint32_t n = x >> 24;
    const uint32_t p = colibri_exp2_part((x >> 9) & 0x7FFF);
    const uint32_t reciprocal = colibri_soft_reciprocal(0x10000 + (p >> colibri_soft_least(n, 31)));

    /* 1 / (1 + e^-|gate|), and below 0 that times e^-|gate|. */
    *sigmoid = (((p & minus) | (0x10000 & ~minus)) * reciprocal + 0x8000) >> 16;
    return n & minus;
}

/* |silu(gate) * up|, with a relative error below 2^-12, as the bits of a float in units of the square of x_scale; 0 for
 * what is below 2^-126. */
COLIBRI_INSIDE uint32_t colibri_hidden_estimate(colibri_hidden_row *restrict row, int32_t gate_sum, uint32_t gate_scale,
                                                int32_t up_sum, uint32_t up_scale, uint32_t octaves, bool grouped)
{
    const uint32_t minus = -((uint32_t)gate_sum >> 31);
    const uint32_t gate = ((uint32_t)gate_sum ^ minus) - minus;
    const uint32_t up_minus = -((uint32_t)up_sum >> 31);
    const uint32_t up = ((uint32_t)up_sum ^ up_minus) - up_minus;
    /* Also of a sum of 0, which times infinity is no number. */
    row->unusual |= (200 - (gate_scale >> 23)) | (200 - (up_scale >> 23));
    if ((gate == 0) | (up == 0)) {
        return 0;
    }
    uint32_t g;
    uint32_t u;
    const uint32_t gate_exponent = colibri_row_number(&g, gate, gate_scale, grouped);
    const uint32_t up_exponent = colibri_row_number(&u, up, up_scale, grouped);
    /* From 2^-60; up to 2^34, and gates below 88, which have less than 2^7 octaves. */
    row->unusual |=
        (gate_exponent - 67) | (259 - (octaves >> 23) - gate_exponent) | (up_exponent - 67) | (160 - up_exponent);
    row->unusual |= grouped ? 0 - ((gate | up) >> 24) : 0;

    uint32_t value;
    uint32_t exponent = gate_exponent + up_exponent - 126;
    exponent -= colibri_hidden_sigmoid(&value, g, gate_exponent, minus, octaves);
    value = ((value * (g >> 16) + 0x8000) >> 16) * (u >> 16); /* 2^28 or more */
    if (value >> 30 == 0) {
        value <<= 2;
        exponent -= 2;
    }
    if (value >> 31 == 0) {
        value <<= 1;
        exponent--;
    }
    return (int32_t)exponent < 1 ? 0 : (value << 1 >> 9) + exponent * 0x800000;
}

/* Estimates of all values, with their signs; returns the largest magnitude, or 0 where they may not hold. */
COLIBRI_INSIDE uint32_t colibri_hidden_estimates(float *restrict values, const colibri_row_sums *up,
                                                 const colibri_row_sums *gate, float x_scale, int k, bool grouped)
{
    const uint32_t octaves = (uint32_t)colibri_bits(x_scale * COLIBRI_LOG2_E);
    const uint32_t scale = (uint32_t)colibri_bits(x_scale) >> 23;
    colibri_hidden_row row = {0, (scale - 67) | (132 - scale)}; /* from 2^-60 to below 2^6 */
    for (int i = 0; i < k; i++) {
        const uint32_t gate_scale = grouped ? (uint32_t)gate->upper[i] << 16 : (uint32_t)colibri_bits(gate->scale[i]);
        const uint32_t up_scale = grouped ? (uint32_t)up->upper[i] << 16 : (uint32_t)colibri_bits(up->scale[i]);
        const int32_t gate_sum = gate->sums[i];
        const int32_t up_sum = up->sums[i];
        const uint32_t estimate =
            colibri_hidden_estimate(&row, gate_sum, gate_scale, up_sum, up_scale, octaves, grouped);
        row.most = estimate > row.most ? estimate : row.most;
        values[i] = colibri_from_bits((int32_t)(estimate | ((uint32_t)(gate_sum ^ up_sum) & 0x80000000u)));
    }
    return row.unusual >> 31 != 0 ? 0 : row.most;
}

/* A value as the contract has it. */
COLIBRI_SHARED float colibri_hidden_value(const colibri_row_sums *up, const colibri_row_sums *gate, int i,
                                          float x_scale)
{
    const float active = colibri_row_value(gate->sums[i], gate->scale, gate->upper, i, x_scale);
    float value = colibri_row_value(up->sums[i], up->scale, up->upper, i, x_scale);
    colibri_silu_times(&value, &active, 1);
    return value;
}

/* y = the integers of silu(gate) * up, zero padded to stride. values: [k], overwritten. */
COLIBRI_INSIDE void colibri_hidden_int8(int8_t *restrict y, float *restrict scale, float *restrict values,
                                        const colibri_row_sums *up, const colibri_row_sums *gate, float x_scale, int k,
                                        int stride, float qmax, bool grouped)
{
    const uint32_t most = colibri_hidden_estimates(values, up, gate, x_scale, k, grouped);
    uint32_t top = 0;
    for (int i = 0; i < k && most >= COLIBRI_LEAST_ESTIMATE; i++) {
        if (colibri_may_be_largest(values[i], most)) {
            top = colibri_most(top, (uint32_t)colibri_bits(colibri_hidden_value(up, gate, i, x_scale)) & 0x7FFFFFFF);
        }
    }
    if (top < COLIBRI_FAINT) {
        for (int i = 0; i < k; i++) {
            values[i] = colibri_hidden_value(up, gate, i, x_scale);
        }
        colibri_quantise8(y, scale, values, k, stride, qmax);
        return;
    }
    const float inverse = colibri_inverse(scale, colibri_from_bits((int32_t)top), qmax);
    const uint32_t multiplier = (uint32_t)colibri_bits(inverse * x_scale * x_scale);
    for (int i = 0; i < k; i++) {
        if (!colibri_quantise_estimate(y + i, values[i], multiplier)) {
            const float value = colibri_hidden_value(up, gate, i, x_scale);
            y[i] = (int8_t)colibri_soft_scale(value, (uint32_t)colibri_bits(inverse), qmax);
        }
    }
    colibri_pad_int8(y, k, stride);
}

/* Of matrices in groups; their rows' scales are the upper 16 bits of fp32. */
COLIBRI_SHARED void colibri_hidden_int8_grouped(int8_t *restrict y, float *restrict scale, float *restrict values,
                                                const int32_t *restrict up, const uint16_t *restrict up_scale,
                                                const int32_t *restrict gate, const uint16_t *restrict gate_scale,
                                                const float *restrict x_scale, int k, int stride, float qmax)
{
    const colibri_row_sums rows_of_up = {up, NULL, up_scale};
    const colibri_row_sums rows_of_gate = {gate, NULL, gate_scale};
    colibri_hidden_int8(y, scale, values, &rows_of_up, &rows_of_gate, *x_scale, k, stride, qmax, true);
}

/* Of others. */
COLIBRI_SHARED void colibri_hidden_int8_scaled(int8_t *restrict y, float *restrict scale, float *restrict values,
                                               const int32_t *restrict up, const float *restrict up_scale,
                                               const int32_t *restrict gate, const float *restrict gate_scale,
                                               const float *restrict x_scale, int k, int stride, float qmax)
{
    const colibri_row_sums rows_of_up = {up, up_scale, NULL};
    const colibri_row_sums rows_of_gate = {gate, gate_scale, NULL};
    colibri_hidden_int8(y, scale, values, &rows_of_up, &rows_of_gate, *x_scale, k, stride, qmax, false);
}

#endif
