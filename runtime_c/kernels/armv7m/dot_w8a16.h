/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, Armv7-M.
 *
 * Four sums in registers share the activations. In assembler, since gcc splits pairs of loads.
 * Packing: [k][4] int8, 4-byte aligned. x: k values. |w| <= 127 and |x| <= qmax of the op, chosen so that
 * 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 4

/* A column of four rows in word. */
#define COLIBRI_COLUMN_W8A16(word)                              \
    "   ldrsh   %[value], [%[x]], #2\n"                         \
    "   sxtb    %[t], " word "\n"                               \
    "   mla     %[total0], %[t], %[value], %[total0]\n"         \
    "   sxtb    %[t], " word ", ror #8\n"                       \
    "   mla     %[total1], %[t], %[value], %[total1]\n"         \
    "   sxtb    %[t], " word ", ror #16\n"                      \
    "   mla     %[total2], %[t], %[value], %[total2]\n"         \
    "   asr     " word ", " word ", #24\n"                      \
    "   mla     %[total3], " word ", %[value], %[total3]\n"

COLIBRI_ASSEMBLY void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                        const int16_t *restrict x, int k)
{
    int32_t total0 = 0, total1 = 0, total2 = 0, total3 = 0, value, t;
    __asm__(
        "   tst     %[k], #1\n"
        "   beq     1f\n"
        "   ldr     r4, [%[w]], #4\n"
        COLIBRI_COLUMN_W8A16("r4")
        "   b       2f\n"
        "1: ldmia   %[w]!, {r4, r5}\n"
        COLIBRI_COLUMN_W8A16("r4")
        COLIBRI_COLUMN_W8A16("r5")
        "2: cmp     %[x], %[end]\n"
        "   bne     1b"
        : [total0] "+r"(total0), [total1] "+r"(total1), [total2] "+r"(total2), [total3] "+r"(total3), [w] "+r"(w),
          [x] "+r"(x), [value] "=&r"(value), [t] "=&r"(t)
        : [end] "r"(x + k), [k] "r"(k)
        : "r4", "r5", "cc", "memory");
    sum[0] = total0;
    sum[1] = total1;
    sum[2] = total2;
    sum[3] = total3;
}

#endif
