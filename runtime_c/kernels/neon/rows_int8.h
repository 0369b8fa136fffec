/* rows_int8.h: the two products of attention with rows of 8 bits, exactly, NEON.
 *
 * Rows stand stride bytes apart, at any address. |x|, |rows| <= 127, so that two products meet in 16 bits. No int32 sum
 * overflows, in any order: see softmax_int8.h.
 */
#ifndef COLIBRI_ROWS_INT8_H
#define COLIBRI_ROWS_INT8_H

#include <arm_neon.h>
#include <stdint.h>

/* row . x. */
static inline int32_t colibri_dot_row_int8(const int8_t *restrict x, const int8_t *restrict row, uint32_t width)
{
    int32x4_t lanes = vdupq_n_s32(0);
    uint32_t d = 0;
    for (; d + 16 <= width; d += 16) {
        const int8x16_t values = vld1q_s8(x + d);
        const int8x16_t elements = vld1q_s8(row + d);
        const int16x8_t pairs = vmull_s8(vget_low_s8(values), vget_low_s8(elements));
        lanes = vpadalq_s16(lanes, vmlal_high_s8(pairs, values, elements));
    }
    for (; d + 8 <= width; d += 8) {
        lanes = vpadalq_s16(lanes, vmull_s8(vld1_s8(x + d), vld1_s8(row + d)));
    }
    int32_t sum = vaddvq_s32(lanes);
    for (; d < width; d++) {
        sum += x[d] * row[d];
    }
    return sum;
}

/* sums[i] = rows[i] . x. */
static inline void colibri_dot_rows_int8(int32_t *restrict sums, const int8_t *restrict x, const int8_t *restrict rows,
                                         uint32_t stride, uint32_t count, uint32_t width)
{
    for (uint32_t i = 0; i < count; i++) {
        sums[i] = colibri_dot_row_int8(x, rows + i * stride, width);
    }
}

/* out[d] = (float)(sum of weights[i] * rows[i][d]) * factor. Weights are within 0..32767. */
static inline void colibri_sum_rows_int8(float *restrict out, const int32_t *restrict weights,
                                         const int8_t *restrict rows, uint32_t stride, uint32_t count, uint32_t width,
                                         float factor)
{
    uint32_t d = 0;
    for (; d + 8 <= width; d += 8) {
        const int8_t *restrict row = rows + d;
        int32x4_t sums0 = vdupq_n_s32(0);
        int32x4_t sums4 = vdupq_n_s32(0);
        for (uint32_t i = 0; i < count; i++) {
            const int16x8_t elements = vmovl_s8(vld1_s8(row));
            const int16x8_t weight = vdupq_n_s16((int16_t)weights[i]);
            sums0 = vmlal_s16(sums0, vget_low_s16(elements), vget_low_s16(weight));
            sums4 = vmlal_high_s16(sums4, elements, weight);
            row += stride;
        }
        vst1q_f32(out + d, vmulq_n_f32(vcvtq_f32_s32(sums0), factor));
        vst1q_f32(out + d + 4, vmulq_n_f32(vcvtq_f32_s32(sums4), factor));
    }
    for (; d < width; d++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += weights[i] * rows[i * stride + d];
        }
        out[d] = (float)sum * factor;
    }
}

#endif
