/* rows_int8.h: the two products of attention with rows of 8 bits, exactly, for cores without an FPU.
 *
 * Rows stand stride bytes apart, at any address. |x|, |rows| <= 127. No int32 sum overflows, in any order: see
 * softmax_int8.h. Both products take four lines of bytes by one line of factors: rows by a query, columns by weights.
 */
#ifndef COLIBRI_ROWS_INT8_H
#define COLIBRI_ROWS_INT8_H

#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_multiply.h"

/* Clang, and gcc that does not optimise, keep r7 as a frame pointer and have not the eight low registers that this needs. */
#if defined(__thumb__) && !defined(__thumb2__) && !defined(__clang__) && defined(__OPTIMIZE__)
/* Four lines share an offset and a factor in low registers; their sums stand in high ones, which can be added to. */
#define COLIBRI_LINE_INT8(line, sum)   \
    "   ldrsb   %[t], [%[" line "], %[o]]\n" \
    "   muls    %[t], %[factor]\n"     \
    "   add     " sum ", %[t]\n"
#define COLIBRI_LINES_INT8 \
    COLIBRI_LINE_INT8("a", "r8") COLIBRI_LINE_INT8("b", "r9") COLIBRI_LINE_INT8("c", "r10") COLIBRI_LINE_INT8("d", "r11")

/* High registers are saved here, since gcc that optimises for size saves none that is named as overwritten. */
#define COLIBRI_SAVE_INT8(register)     \
    "   mov     %[t], " register "\n"   \
    "   push    {%[t]}\n"
#define COLIBRI_RESTORE_INT8(register)  \
    "   pop     {%[t]}\n"               \
    "   mov     " register ", %[t]\n"
#define COLIBRI_NO_SUMS        \
    COLIBRI_SAVE_INT8("r8") COLIBRI_SAVE_INT8("r9") COLIBRI_SAVE_INT8("r10") COLIBRI_SAVE_INT8("r11") \
    "   movs    %[t], #0\n"    \
    "   mov     r8, %[t]\n"    \
    "   mov     r9, %[t]\n"    \
    "   mov     r10, %[t]\n"   \
    "   mov     r11, %[t]\n"
#define COLIBRI_SUMS           \
    "   mov     %[a], r8\n"    \
    "   mov     %[b], r9\n"    \
    "   mov     %[c], r10\n"   \
    "   mov     %[d], r11\n"   \
    COLIBRI_RESTORE_INT8("r11") COLIBRI_RESTORE_INT8("r10") COLIBRI_RESTORE_INT8("r9") COLIBRI_RESTORE_INT8("r8")

/* sums[r] = x . row r of four; width: a multiple of 4, not 0. */
COLIBRI_ASSEMBLY void colibri_dot_fours_int8(int32_t *restrict sums, const int8_t *restrict x,
                                             const int8_t *restrict rows, uint32_t stride, uint32_t width)
{
    uint32_t a = (uint32_t)rows;
    uint32_t b = a + stride;
    uint32_t c = b + stride;
    uint32_t d = c + stride;
    uint32_t o = width;
    uint32_t factor;
    uint32_t t;
    __asm__ volatile(
        "   .syntax unified\n"
        COLIBRI_NO_SUMS
        "1:\n"
        "   .rept   4\n"
        "   subs    %[o], %[o], #1\n"
        "   ldrsb   %[factor], [%[x], %[o]]\n"
        COLIBRI_LINES_INT8
        "   .endr\n"
        "   cmp     %[o], #0\n"
        "   bne     1b\n"
        COLIBRI_SUMS
        : [a] "+l"(a), [b] "+l"(b), [c] "+l"(c), [d] "+l"(d), [o] "+l"(o), [factor] "=&l"(factor), [t] "=&l"(t)
        : [x] "l"(x)
        : "cc", "memory");
    sums[0] = (int32_t)a;
    sums[1] = (int32_t)b;
    sums[2] = (int32_t)c;
    sums[3] = (int32_t)d;
}

/* sums[d] = weights . column d of four; count: a multiple of 4, not 0. */
COLIBRI_ASSEMBLY void colibri_sum_fours_int8(int32_t *restrict sums, const int32_t *restrict weights,
                                             const int8_t *restrict rows, uint32_t stride, uint32_t count)
{
    uint32_t a = (uint32_t)rows;
    uint32_t b = a + 1;
    uint32_t c = a + 2;
    uint32_t d = a + 3;
    uint32_t o = stride;
    uint32_t factor = (uint32_t)(weights + count);
    uint32_t t;
    __asm__ volatile(
        "   .syntax unified\n"
        "   mov     r12, %[o]\n"
        "   mov     lr, %[factor]\n"
        "   movs    %[o], #0\n"
        COLIBRI_NO_SUMS
        "1:\n"
        "   .rept   4\n"
        "   ldmia   %[x]!, {%[factor]}\n"
        COLIBRI_LINES_INT8
        "   add     %[o], r12\n"
        "   .endr\n"
        "   cmp     %[x], lr\n"
        "   bne     1b\n"
        COLIBRI_SUMS
        : [a] "+l"(a), [b] "+l"(b), [c] "+l"(c), [d] "+l"(d), [o] "+l"(o), [factor] "+l"(factor), [t] "=&l"(t),
          [x] "+l"(weights)
        :
        : "r12", "lr", "cc", "memory");
    sums[0] = (int32_t)a;
    sums[1] = (int32_t)b;
    sums[2] = (int32_t)c;
    sums[3] = (int32_t)d;
}
#else
/* Not left to the compiler: gcc for RV32 unrolls no loop of this kind at -O2, and where it may, it loads all four steps
 * at once and lacks registers. */
#define COLIBRI_STEP_INT8 __asm__ volatile("" : : : "memory");
#define COLIBRI_COLUMN_INT8(i) \
    sum0 += x[i] * rows[i];    \
    sum1 += x[i] * row1[i];    \
    sum2 += x[i] * row2[i];    \
    sum3 += x[i] * row3[i];    \
    COLIBRI_STEP_INT8
#define COLIBRI_POSITION_INT8(i)   \
    sum0 += weights[i] * rows[0];  \
    sum1 += weights[i] * rows[1];  \
    sum2 += weights[i] * rows[2];  \
    sum3 += weights[i] * rows[3];  \
    rows += stride;                \
    COLIBRI_STEP_INT8

/* sums[r] = x . row r of four; width: a multiple of 4. */
COLIBRI_SHARED void colibri_dot_fours_int8(int32_t *restrict sums, const int8_t *restrict x,
                                           const int8_t *restrict rows, uint32_t stride, uint32_t width)
{
    const int8_t *restrict row1 = rows + stride;
    const int8_t *restrict row2 = row1 + stride;
    const int8_t *restrict row3 = row2 + stride;
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    for (uint32_t d = 0; d < width; d += 4) {
        COLIBRI_COLUMN_INT8(0)
        COLIBRI_COLUMN_INT8(1)
        COLIBRI_COLUMN_INT8(2)
        COLIBRI_COLUMN_INT8(3)
        x += 4;
        rows += 4;
        row1 += 4;
        row2 += 4;
        row3 += 4;
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/* sums[d] = weights . column d of four; count: a multiple of 4. */
COLIBRI_SHARED void colibri_sum_fours_int8(int32_t *restrict sums, const int32_t *restrict weights,
                                           const int8_t *restrict rows, uint32_t stride, uint32_t count)
{
    int32_t sum0 = 0;
    int32_t sum1 = 0;
    int32_t sum2 = 0;
    int32_t sum3 = 0;
    for (uint32_t i = 0; i < count; i += 4) {
        COLIBRI_POSITION_INT8(0)
        COLIBRI_POSITION_INT8(1)
        COLIBRI_POSITION_INT8(2)
        COLIBRI_POSITION_INT8(3)
        weights += 4;
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
    const uint32_t fours = width & ~3u;
    const uint32_t whole = fours != 0 ? count & ~3u : 0;
    for (uint32_t i = 0; i < whole; i += 4) {
        colibri_dot_fours_int8(sums + i, x, rows + i * stride, stride, fours);
    }
    for (uint32_t i = fours == width ? whole : 0; i < count; i++) {
        const uint32_t done = i < whole ? fours : 0;
        int32_t sum = done != 0 ? sums[i] : 0;
        for (uint32_t d = done; d < width; d++) {
            sum += x[d] * rows[i * stride + d];
        }
        sums[i] = sum;
    }
}

/* (float)sum. */
static inline float colibri_soft_from_int(int32_t sum)
{
    const uint32_t sign = (uint32_t)sum & 0x80000000u;
    uint32_t magnitude = sign != 0 ? 0 - (uint32_t)sum : (uint32_t)sum;
    if (magnitude == 0) {
        return 0.0f;
    }
    const uint32_t zeros = colibri_soft_lead(&magnitude);
    return colibri_from_bits((int32_t)(sign + colibri_soft_round_byte(magnitude) + (157 - zeros) * 0x800000));
}

/* out[d] = (float)(sum of weights[i] * rows[i][d]) * factor. Weights are within 0..32767. */
static inline void colibri_sum_rows_int8(float *restrict out, const int32_t *restrict weights,
                                         const int8_t *restrict rows, uint32_t stride, uint32_t count, uint32_t width,
                                         float factor)
{
    const uint32_t whole = width & ~3u;
    const uint32_t fours = count & ~3u;
    for (uint32_t d = 0; d < whole; d += 4) {
        int32_t sums[4] = {0};
        if (fours != 0) {
            colibri_sum_fours_int8(sums, weights, rows + d, stride, fours);
        }
        for (uint32_t i = fours; i < count; i++) {
            for (uint32_t column = 0; column < 4; column++) {
                sums[column] += weights[i] * rows[i * stride + d + column];
            }
        }
        for (uint32_t column = 0; column < 4; column++) {
            out[d + column] = colibri_soft_from_int(sums[column]);
        }
    }
    for (uint32_t d = whole; d < width; d++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            sum += weights[i] * rows[i * stride + d];
        }
        out[d] = colibri_soft_from_int(sum);
    }
    colibri_soft_scale_row(out, out, factor, (int)width);
}

#endif
