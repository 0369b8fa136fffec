/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, Armv6-M.
 *
 * One multiplication does two columns c and d: (q_c + 2^16 q_d) (x_d + 2^16 x_c) modulo 2^32 has in its upper half
 * q_c x_c + q_d x_d, above q_c x_d. In a group of 32 columns either half sums up to at most 32 * 8 * 127 < 2^15 once 8
 * is taken off each q, so that both can be told apart then. In assembler, to have sums in the upper registers.
 * Packing: [k / 32][4][16] bytes, 4-byte aligned; byte c of a group holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and
 * |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4

/* Where sums are. When gcc optimises Thumb-1 code for size it keeps the upper registers to itself; they are then saved
 * here, but for r12, which no function has to keep, and the sums leave through memory. */
#if defined __OPTIMIZE_SIZE__ && !defined __clang__
#define COLIBRI_SAVED_W4A8 1
#define COLIBRI_SUM_W4A8(name, upper) upper
#else
#define COLIBRI_SAVED_W4A8 0
#define COLIBRI_SUM_W4A8(name, upper) "%[" name "]"
#endif

/* part plus the products of the pair of activations with a row's nibbles shift bits up in each half of its word. */
#define COLIBRI_ROW_W4A8(part, at, shift)       \
    "   ldr     %[t], [%[w], #" at "]\n"        \
    shift                                       \
    "   ands    %[t], %[mask]\n"                \
    "   muls    %[t], %[pair]\n"                \
    "   add     " part ", %[t]\n"

/* Columns c and d of four rows. */
#define COLIBRI_PAIR_W4A8(c, d, shift)                              \
    "   ldrb    %[pair], [%[x], #" c "]\n"                          \
    "   lsls    %[pair], %[pair], #24\n"                            \
    "   asrs    %[pair], %[pair], #8\n"                             \
    "   ldrb    %[t], [%[x], #" d "]\n"                             \
    "   sxtb    %[t], %[t]\n"                                       \
    "   adds    %[pair], %[pair], %[t]\n"                           \
    "   add     " COLIBRI_SUM_W4A8("values", "r12") ", %[pair]\n"   \
    COLIBRI_ROW_W4A8(COLIBRI_SUM_W4A8("part0", "r8"), "0", shift)   \
    COLIBRI_ROW_W4A8(COLIBRI_SUM_W4A8("part1", "r9"), "16", shift)  \
    COLIBRI_ROW_W4A8(COLIBRI_SUM_W4A8("part2", "r10"), "32", shift) \
    COLIBRI_ROW_W4A8(COLIBRI_SUM_W4A8("part3", "r11"), "48", shift)

/* 16 columns and those 16 behind them: the steps of the loop over words of weights. */
#define COLIBRI_GROUP_W4A8                                          \
    "1:\n"                                                          \
    COLIBRI_PAIR_W4A8("0", "2", "")                                 \
    COLIBRI_PAIR_W4A8("16", "18", "   lsrs    %[t], %[t], #4\n")    \
    COLIBRI_PAIR_W4A8("1", "3", "   lsrs    %[t], %[t], #8\n")      \
    COLIBRI_PAIR_W4A8("17", "19", "   lsrs    %[t], %[t], #12\n")   \
    "   adds    %[x], %[x], #4\n"                                   \
    "   adds    %[w], %[w], #4\n"                                   \
    "   cmp     %[x], %[end]\n"                                     \
    "   bne     1b\n"

/* The upper half of what is left when 8 is taken off each q. */
static inline int32_t colibri_upper_w4a8(uint32_t part, uint32_t eights)
{
    part -= eights;
    return (int32_t)(part - (uint32_t)(int16_t)part) >> 16;
}

COLIBRI_ASSEMBLY void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    for (int row = 0; row < COLIBRI_DOT_W4A8_ROWS; row++) {
        sum[row] = 0;
    }
    for (int i = k / 32; i > 0; i--) {
#if COLIBRI_SAVED_W4A8
        uint32_t part[5], pair, t;
        __asm__ __volatile__(
            "   .syntax unified\n"
            "   mov     %[t], r8\n"
            "   push    {%[t]}\n"
            "   mov     %[t], r9\n"
            "   push    {%[t]}\n"
            "   mov     %[t], r10\n"
            "   push    {%[t]}\n"
            "   mov     %[t], r11\n"
            "   push    {%[t]}\n"
            "   movs    %[t], #0\n"
            "   mov     r8, %[t]\n"
            "   mov     r9, %[t]\n"
            "   mov     r10, %[t]\n"
            "   mov     r11, %[t]\n"
            "   mov     r12, %[t]\n"
            COLIBRI_GROUP_W4A8
            "   mov     %[t], r8\n"
            "   str     %[t], [%[part], #0]\n"
            "   mov     %[t], r9\n"
            "   str     %[t], [%[part], #4]\n"
            "   mov     %[t], r10\n"
            "   str     %[t], [%[part], #8]\n"
            "   mov     %[t], r11\n"
            "   str     %[t], [%[part], #12]\n"
            "   mov     %[t], r12\n"
            "   str     %[t], [%[part], #16]\n"
            "   pop     {%[t]}\n"
            "   mov     r11, %[t]\n"
            "   pop     {%[t]}\n"
            "   mov     r10, %[t]\n"
            "   pop     {%[t]}\n"
            "   mov     r9, %[t]\n"
            "   pop     {%[t]}\n"
            "   mov     r8, %[t]"
            : [w] "+l"(w), [x] "+l"(x), [pair] "=&l"(pair), [t] "=&l"(t)
            : [part] "l"(part), [mask] "l"(0x000F000F), [end] "l"(x + 16)
            : "r12", "cc", "memory");
        const uint32_t part0 = part[0], part1 = part[1], part2 = part[2], part3 = part[3], values = part[4];
#else
        uint32_t part0 = 0, part1 = 0, part2 = 0, part3 = 0, values = 0, pair, t;
        __asm__(
            "   .syntax unified\n"
            COLIBRI_GROUP_W4A8
            : [part0] "+h"(part0), [part1] "+h"(part1), [part2] "+h"(part2), [part3] "+h"(part3),
              [values] "+h"(values), [w] "+l"(w), [x] "+l"(x), [pair] "=&l"(pair), [t] "=&l"(t)
            : [mask] "l"(0x000F000F), [end] "l"(x + 16)
            : "cc", "memory");
#endif
        const uint32_t eights = values * 0x00080008;
        sum[0] += colibri_upper_w4a8(part0, eights) * factor[0];
        sum[1] += colibri_upper_w4a8(part1, eights) * factor[1];
        sum[2] += colibri_upper_w4a8(part2, eights) * factor[2];
        sum[3] += colibri_upper_w4a8(part3, eights) * factor[3];
        factor += COLIBRI_DOT_W4A8_ROWS;
        w += 48;
        x += 16;
    }
}

#endif
