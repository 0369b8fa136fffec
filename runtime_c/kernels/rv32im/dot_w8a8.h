/* dot_w8a8.h: 8 rows of an 8-bit matrix times 8-bit activations, exactly, 32-bit RISC-V.
 *
 * Eight sums in registers share four activations a turn of the loop. In assembler, since gcc schedules loads so early
 * that registers run out.
 * Packing: [k / 4][8][4] int8. x: k values, k a multiple of 4, zero padded. 127 * 127 * k < 2^31: no sum overflows, in any
 * order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 8

/* total plus the products of one weight, and of a row's 4. */
#define COLIBRI_ADD_W8A8(total, at, x)                                              \
    "   lb   %[t], " at "(%[w])\n"                                                  \
    "   mul  %[t], %[t], %[" x "]\n"                                                \
    "   add  %[" total "], %[" total "], %[t]\n"
#define COLIBRI_ROW_W8A8(total, at0, at1, at2, at3)                                 \
    COLIBRI_ADD_W8A8(total, at0, "x0") COLIBRI_ADD_W8A8(total, at1, "x1")           \
    COLIBRI_ADD_W8A8(total, at2, "x2") COLIBRI_ADD_W8A8(total, at3, "x3")

COLIBRI_ASSEMBLY void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                       const int8_t *restrict x, int k)
{
    const int8_t *const end = x + k;
    int32_t total0 = 0;
    int32_t total1 = 0;
    int32_t total2 = 0;
    int32_t total3 = 0;
    int32_t total4 = 0;
    int32_t total5 = 0;
    int32_t total6 = 0;
    int32_t total7 = 0;
    int32_t x0, x1, x2, x3, t;
    __asm__(
        "1: lb   %[x0], 0(%[x])\n"
        "   lb   %[x1], 1(%[x])\n"
        "   lb   %[x2], 2(%[x])\n"
        "   lb   %[x3], 3(%[x])\n"
        COLIBRI_ROW_W8A8("total0", "0", "1", "2", "3")
        COLIBRI_ROW_W8A8("total1", "4", "5", "6", "7")
        COLIBRI_ROW_W8A8("total2", "8", "9", "10", "11")
        COLIBRI_ROW_W8A8("total3", "12", "13", "14", "15")
        COLIBRI_ROW_W8A8("total4", "16", "17", "18", "19")
        COLIBRI_ROW_W8A8("total5", "20", "21", "22", "23")
        COLIBRI_ROW_W8A8("total6", "24", "25", "26", "27")
        COLIBRI_ROW_W8A8("total7", "28", "29", "30", "31")
        "   addi %[x], %[x], 4\n"
        "   addi %[w], %[w], 32\n"
        "   bne  %[x], %[end], 1b"
        : [total0] "+r"(total0), [total1] "+r"(total1), [total2] "+r"(total2), [total3] "+r"(total3),
          [total4] "+r"(total4), [total5] "+r"(total5), [total6] "+r"(total6), [total7] "+r"(total7),
          [w] "+r"(w), [x] "+r"(x), [x0] "=&r"(x0), [x1] "=&r"(x1), [x2] "=&r"(x2), [x3] "=&r"(x3), [t] "=&r"(t)
        : [end] "r"(end)
        : "memory");
    sum[0] = total0;
    sum[1] = total1;
    sum[2] = total2;
    sum[3] = total3;
    sum[4] = total4;
    sum[5] = total5;
    sum[6] = total6;
    sum[7] = total7;
}

#endif
