/* rows_int8.h: the two products of attention with rows of 8 bits, exactly, with SMLAD where rows are words.
 *
 * Rows stand stride bytes apart, at any address. |x|, |rows| <= 127. No int32 sum overflows, in any order: see
 * softmax_int8.h. Four columns of four rows take 23 instructions in the first product, four of two rows 16 in the second.
 */
#ifndef COLIBRI_ROWS_INT8_H
#define COLIBRI_ROWS_INT8_H

#include <arm_acle.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

typedef uint32_t __attribute__((may_alias)) colibri_four; /* of 8 bits */

/* Whether all of them are multiples of four: addresses, strides, widths. */
static inline int colibri_are_words(const void *x, const void *rows, uint32_t stride, uint32_t width)
{
    return (((uint32_t)(uintptr_t)x | (uint32_t)(uintptr_t)rows | stride | width) & 3) == 0;
}

/* Columns 0 and 2 of four as 16 bits each, and columns 1 and 3. */
static inline int32_t colibri_even(uint32_t four)
{
    return (int32_t)__sxtb16((int8x4_t)four);
}

static inline int32_t colibri_odd_ones(uint32_t four)
{
    int32_t odd;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(four));
    return odd;
}

static inline int32_t colibri_add_four(int32_t sum, uint32_t four, int32_t even, int32_t odd)
{
    sum = __smlad((int16x2_t)colibri_even(four), (int16x2_t)even, sum);
    return __smlad((int16x2_t)colibri_odd_ones(four), (int16x2_t)odd, sum);
}

/* Four rows, of words. */
static inline void colibri_dot_four_rows(int32_t *restrict sums, const colibri_four *restrict x,
                                         const colibri_four *restrict row, uint32_t words, uint32_t count)
{
    const colibri_four *const end = x + count;
    const colibri_four *restrict third = row + 2 * words;
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    while (x != end) {
        const uint32_t value = *x++;
        const int32_t even = colibri_even(value);
        const int32_t odd = colibri_odd_ones(value);
        sum1 = colibri_add_four(sum1, row[words], even, odd);
        sum0 = colibri_add_four(sum0, *row++, even, odd);
        sum3 = colibri_add_four(sum3, third[words], even, odd);
        sum2 = colibri_add_four(sum2, *third++, even, odd);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* sums[i] = rows[i] . x. */
COLIBRI_SHARED void colibri_dot_rows_int8(int32_t *restrict sums, const int8_t *restrict x, const int8_t *restrict rows,
                                          uint32_t stride, uint32_t count, uint32_t width)
{
    uint32_t done = 0;
    if (colibri_are_words(x, rows, stride, width)) {
        for (; done + 4 <= count; done += 4) {
            colibri_dot_four_rows(sums + done, (const void *)x, (const void *)(rows + done * stride), stride / 4,
                                  width / 4);
        }
    }
    for (; done < count; done++) {
        int32_t sum = 0;
        for (uint32_t d = 0; d < width; d++) {
            sum += x[d] * rows[done * stride + d];
        }
        sums[done] = sum;
    }
}

/* Four columns of all rows, of words. */
static inline void colibri_sum_four_columns(float *restrict out, const int32_t *restrict weights,
                                            const int8_t *restrict row, uint32_t stride, uint32_t count, float factor)
{
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
#pragma GCC unroll 2
    for (uint32_t i = count; i > 0; i--) {
        const uint32_t four = *(const colibri_four *)(const void *)row;
        const int32_t even = colibri_even(four);
        const int32_t odd = colibri_odd_ones(four);
        const int32_t weight = *weights++;
        sum0 = __smlabb(even, weight, sum0);
        sum1 = __smlabb(odd, weight, sum1);
        sum2 = __smlatb(even, weight, sum2);
        sum3 = __smlatb(odd, weight, sum3);
        row += stride;
    }
    out[0] = (float)sum0 * factor;
    out[1] = (float)sum1 * factor;
    out[2] = (float)sum2 * factor;
    out[3] = (float)sum3 * factor;
}

/* out[d] = (float)(sum of weights[i] * rows[i][d]) * factor. Weights are within 0..32767. */
COLIBRI_SHARED void colibri_sum_rows_int8(float *restrict out, const int32_t *restrict weights,
                                          const int8_t *restrict rows, uint32_t stride, uint32_t count, uint32_t width,
                                          float factor)
{
    uint32_t done = 0;
    if (colibri_are_words(NULL, rows, stride, width)) {
        for (; done < width; done += 4) {
            colibri_sum_four_columns(out + done, weights, rows + done, stride, count, factor);
        }
    }
    for (; done < width; done++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += weights[i] * rows[i * stride + done];
        }
        out[done] = (float)sum * factor;
    }
}

#endif
