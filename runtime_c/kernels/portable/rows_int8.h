/* rows_int8.h: the two products of attention with rows of 8 bits, exactly.
 *
 * Rows stand stride bytes apart, at any address. |x|, |rows| <= 127. No int32 sum overflows, in any order: see
 * softmax_int8.h.
 */
#ifndef COLIBRI_ROWS_INT8_H
#define COLIBRI_ROWS_INT8_H

#include <stdint.h>

/* Rows that share what is loaded of x; Armv6-M has registers for two. */
#if defined(__thumb__) && !defined(__thumb2__)
#define COLIBRI_ROWS_TOGETHER 2u

static inline void colibri_dot_together_int8(int32_t *restrict sums, const int8_t *restrict x,
                                             const int8_t *restrict row, uint32_t stride, uint32_t width)
{
    const int8_t *restrict next = row + stride;
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    for (uint32_t d = 0; d < width; d++) {
        sum0 += x[d] * row[d];
        sum1 += x[d] * next[d];
    }
    sums[0] = sum0;
    sums[1] = sum1;
}
#else
#define COLIBRI_ROWS_TOGETHER 4u

static inline void colibri_dot_together_int8(int32_t *restrict sums, const int8_t *restrict x,
                                             const int8_t *restrict row, uint32_t stride, uint32_t width)
{
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    for (uint32_t d = 0; d < width; d++) {
        sum0 += x[d] * row[d];
        sum1 += x[d] * row[stride + d];
        sum2 += x[d] * row[2 * stride + d];
        sum3 += x[d] * row[3 * stride + d];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}
#endif

/* sums[i] = rows[i] . x. */
static inline void colibri_dot_rows_int8(int32_t *restrict sums, const int8_t *restrict x, const int8_t *restrict rows,
                                         uint32_t stride, uint32_t count, uint32_t width)
{
    const uint32_t whole = count & ~(COLIBRI_ROWS_TOGETHER - 1);
    for (uint32_t i = 0; i < whole; i += COLIBRI_ROWS_TOGETHER) {
        colibri_dot_together_int8(sums + i, x, rows + i * stride, stride, width);
    }
    for (uint32_t i = whole; i < count; i++) {
        int32_t sum = 0;
        for (uint32_t d = 0; d < width; d++) {
            sum += x[d] * rows[i * stride + d];
        }
        sums[i] = sum;
    }
}

/* out[d] = (float)(sum of weights[i] * rows[i][d]) * factor. Weights are within 0..32767. */
static inline void colibri_sum_rows_int8(float *restrict out, const int32_t *restrict weights,
                                         const int8_t *restrict rows, uint32_t stride, uint32_t count, uint32_t width,
                                         float factor)
{
    const uint32_t whole = width & ~3u;
    for (uint32_t d = 0; d < whole; d += 4) {
        const int8_t *restrict row = rows + d;
        int32_t sum0 = 0;
        int32_t sum1 = 0;
        int32_t sum2 = 0;
        int32_t sum3 = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum0 += weights[i] * row[0];
            sum1 += weights[i] * row[1];
            sum2 += weights[i] * row[2];
            sum3 += weights[i] * row[3];
            row += stride;
        }
        out[d] = (float)sum0 * factor;
        out[d + 1] = (float)sum1 * factor;
        out[d + 2] = (float)sum2 * factor;
        out[d + 3] = (float)sum3 * factor;
    }
    for (uint32_t d = whole; d < width; d++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += weights[i] * rows[i * stride + d];
        }
        out[d] = (float)sum * factor;
    }
}

#endif
