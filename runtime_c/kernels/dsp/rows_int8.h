/* rows_int8.h: the two products of attention with rows of 8 bits, exactly, with SMLAD where rows are words.
 *
 * Rows stand stride bytes apart, at any address. |x|, |rows| <= 127. No int32 sum overflows, in any order: see
 * softmax_int8.h. Four columns of four rows take 21 instructions in the first product, four of two rows 14 in the second.
 */
#ifndef COLIBRI_ROWS_INT8_H
#define COLIBRI_ROWS_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_ROWS_AT_ONCE 128 /* columns of x that stand in 16 bits */

typedef uint32_t __attribute__((may_alias)) colibri_four; /* of 8 bits, or two of 16 */

/* Whether all of them are multiples of four: addresses, strides, widths. */
static inline int colibri_are_words(const void *x, const void *rows, uint32_t stride, uint32_t width)
{
    return (((uint32_t)(uintptr_t)x | (uint32_t)(uintptr_t)rows | stride | width) & 3) == 0;
}

/* sum plus four columns of a row at address; next: what is added to the address. */
#define COLIBRI_ROWS_DOT(sum, address)                  \
    "ldr %[four], " address "\n\t"                      \
    "sxtb16 %[t], %[four]\n\t"                          \
    "sxtb16 %[four], %[four], ror #8\n\t"               \
    "smlad %[" sum "], %[t], %[even], %[" sum "]\n\t"   \
    "smlad %[" sum "], %[four], %[odd], %[" sum "]\n\t"

/* Four rows of words; x: columns 0 and 2 of four in a word, columns 1 and 3 in the next. The first columns are assigned,
 * more are added. */
COLIBRI_INSIDE void colibri_dot_four_rows(int32_t *restrict sums, const int32_t *restrict x, const int32_t *end,
                                          const int8_t *restrict row, uint32_t stride, bool more)
{
    const int8_t *restrict third = row + 2 * stride;
    int32_t sum0 = more ? sums[0] : 0;
    int32_t sum1 = more ? sums[1] : 0;
    int32_t sum2 = more ? sums[2] : 0;
    int32_t sum3 = more ? sums[3] : 0;
    while (x != end) {
        int32_t four;
        int32_t t;
        int32_t even;
        int32_t odd;
        __asm__("ldrd %[even], %[odd], [%[x]], #8\n\t"
                COLIBRI_ROWS_DOT("sum1", "[%[row], %[stride]]") COLIBRI_ROWS_DOT("sum0", "[%[row]], #4")
                COLIBRI_ROWS_DOT("sum3", "[%[third], %[stride]]") COLIBRI_ROWS_DOT("sum2", "[%[third]], #4")
                : [sum0] "+r"(sum0), [sum1] "+r"(sum1), [sum2] "+r"(sum2), [sum3] "+r"(sum3), [x] "+r"(x),
                  [row] "+r"(row), [third] "+r"(third), [four] "=&r"(four), [t] "=&r"(t), [even] "=&r"(even),
                  [odd] "=&r"(odd)
                : [stride] "r"(stride)
                : "memory");
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* Columns of all whole fours of rows; x of words. */
COLIBRI_INSIDE void colibri_dot_rows_of_words(int32_t *restrict sums, const int8_t *restrict x,
                                              const int8_t *restrict rows, uint32_t stride, uint32_t count,
                                              uint32_t width, bool more)
{
    const colibri_four *const words = (const void *)x;
    int32_t wide[COLIBRI_ROWS_AT_ONCE / 2];
    for (uint32_t i = 0; i < width / 4; i++) {
        __asm__("sxtb16 %0, %2\n\t"
                "sxtb16 %1, %2, ror #8"
                : "=&r"(wide[2 * i]), "=r"(wide[2 * i + 1])
                : "r"(words[i]));
    }
    for (uint32_t done = 0; done < count; done += 4) {
        colibri_dot_four_rows(sums + done, wide, wide + width / 2, rows + done * stride, stride, more);
    }
}

/* sums[i] = rows[i] . x. */
COLIBRI_ASSEMBLY void colibri_dot_rows_int8(int32_t *restrict sums, const int8_t *restrict x,
                                            const int8_t *restrict rows, uint32_t stride, uint32_t count,
                                            uint32_t width)
{
    const uint32_t fours = colibri_are_words(x, rows, stride, width) ? count & ~3u : 0;
    for (uint32_t from = 0; fours != 0 && from < width; from += COLIBRI_ROWS_AT_ONCE) {
        const uint32_t left = width - from;
        colibri_dot_rows_of_words(sums, x + from, rows + from, stride, fours,
                                  left < COLIBRI_ROWS_AT_ONCE ? left : COLIBRI_ROWS_AT_ONCE, from != 0);
    }
    for (uint32_t i = fours; i < count; i++) {
        int32_t sum = 0;
        for (uint32_t d = 0; d < width; d++) {
            sum += x[d] * rows[i * stride + d];
        }
        sums[i] = sum;
    }
}

/* Four columns of two rows, which weigh as the halves of a register say. */
#define COLIBRI_ROWS_SUM(weights)                            \
    "ldr %[other], [%[row], %[stride]]\n\t"                  \
    "ldr %[one], [%[row]]\n\t"                               \
    "add %[row], %[row], %[stride], lsl #1\n\t"              \
    "pkhbt %[t], %[one], %[other], lsl #16\n\t"              \
    "pkhtb %[other], %[other], %[one], asr #16\n\t"          \
    "sxtb16 %[one], %[t]\n\t"                                \
    "smlad %[sum0], %[one], %[" weights "], %[sum0]\n\t"     \
    "sxtb16 %[one], %[t], ror #8\n\t"                        \
    "smlad %[sum1], %[one], %[" weights "], %[sum1]\n\t"     \
    "sxtb16 %[one], %[other]\n\t"                            \
    "smlad %[sum2], %[one], %[" weights "], %[sum2]\n\t"     \
    "sxtb16 %[one], %[other], ror #8\n\t"                    \
    "smlad %[sum3], %[one], %[" weights "], %[sum3]\n\t"

/* Four columns of fours of rows, of words, and of up to three last ones. */
COLIBRI_INSIDE void colibri_sum_four_columns(int32_t sum[4], const colibri_four *restrict weights,
                                             const int8_t *restrict row, uint32_t stride, uint32_t count)
{
    const colibri_four *const end = weights + count / 4 * 2;
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    while (weights != end) {
        uint32_t two;
        uint32_t more;
        uint32_t one;
        uint32_t other;
        uint32_t t;
        __asm__("ldrd %[two], %[more], [%[weights]], #8\n\t" COLIBRI_ROWS_SUM("two") COLIBRI_ROWS_SUM("more")
                : [sum0] "+r"(sum0), [sum1] "+r"(sum1), [sum2] "+r"(sum2), [sum3] "+r"(sum3), [row] "+r"(row),
                  [weights] "+r"(weights), [two] "=&r"(two), [more] "=&r"(more), [one] "=&r"(one),
                  [other] "=&r"(other), [t] "=&r"(t)
                : [stride] "r"(stride)
                : "memory");
    }
    for (uint32_t i = 0; i < (count & 3); i++) {
        const int32_t weight = (int32_t)(weights[i / 2] >> (16 * (i & 1)) & 0xFFFF);
        sum0 += row[0] * weight;
        sum1 += row[1] * weight;
        sum2 += row[2] * weight;
        sum3 += row[3] * weight;
        row += stride;
    }
    sum[0] = sum0;
    sum[1] = sum1;
    sum[2] = sum2;
    sum[3] = sum3;
}

/* out[d] = (float)(sum of weights[i] * rows[i][d]) * factor. Weights are within 0..32767; two share one of the words. */
COLIBRI_SHARED void colibri_sum_rows_int8(float *restrict out, const int32_t *restrict weights,
                                          const int8_t *restrict rows, uint32_t stride, uint32_t count, uint32_t width,
                                          float factor)
{
    const colibri_four *const pairs = (const void *)weights;
    uint32_t done = 0;
    if (colibri_are_words(NULL, rows, stride, width)) {
        for (; done < width; done += 4) {
            int32_t sum[4];
            colibri_sum_four_columns(sum, pairs, rows + done, stride, count);
            out[done] = (float)sum[0] * factor;
            out[done + 1] = (float)sum[1] * factor;
            out[done + 2] = (float)sum[2] * factor;
            out[done + 3] = (float)sum[3] * factor;
        }
    }
    for (; done < width; done++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += (int32_t)(pairs[i / 2] >> (16 * (i & 1)) & 0xFFFF) * rows[i * stride + done];
        }
        out[done] = (float)sum * factor;
    }
}

#endif
