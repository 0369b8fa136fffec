/* dot_w8a8.h: 4 rows of an 8-bit matrix times 8-bit activations, exactly, Armv7-M.
 *
 * One SMLAL does two rows: a word with an unsigned weight in its lowest and a signed one in its highest byte, times an
 * activation, adds to the sum of one in 24 bits and to that of the other above them. 128 is added to the lower weights;
 * 512 columns may pass before their sum, once that is taken off, could reach 2^23. In assembler, since gcc splits pairs
 * of loads.
 * Packing: [k][4] int8, 4-byte aligned. x: k values. |w|, |x| <= 127 and 127 * 127 * k < 2^31: no sum overflows, in any
 * order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 4

/* A column of four rows in word: rows 0 and 3 meet in outer, rows 2 and 1 in inner. */
#define COLIBRI_COLUMN_W8A8(word)                                       \
    "   ldrsb   %[value], [%[x]], #1\n"                                 \
    "   eor     " word ", " word ", #0x00800080\n"                      \
    "   and     %[t], %[mask], " word "\n"                              \
    "   and     " word ", %[mask], " word ", ror #16\n"                 \
    "   smlal   %[outer0], %[outer1], %[t], %[value]\n"                 \
    "   smlal   %[inner0], %[inner1], " word ", %[value]\n"             \
    "   add     %[values], %[values], %[value]\n"

COLIBRI_ASSEMBLY void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                       const int8_t *restrict x, int k)
{
    for (int row = 0; row < COLIBRI_DOT_W8A8_ROWS; row++) {
        sum[row] = 0;
    }
    while (k > 0) {
        const int8_t *const end = x + (k < 512 ? k : 512);
        uint32_t outer0 = 0, inner0 = 0;
        int32_t outer1 = 0, inner1 = 0, values = 0, value, t = end - x;
        k -= 512;
        __asm__(
            "   tst     %[t], #1\n"
            "   beq     1f\n"
            "   ldr     r4, [%[w]], #4\n"
            COLIBRI_COLUMN_W8A8("r4")
            "   b       2f\n"
            "1: ldmia   %[w]!, {r4, r5}\n"
            COLIBRI_COLUMN_W8A8("r4")
            COLIBRI_COLUMN_W8A8("r5")
            "2: cmp     %[x], %[end]\n"
            "   bne     1b"
            : [outer0] "+r"(outer0), [outer1] "+r"(outer1), [inner0] "+r"(inner0), [inner1] "+r"(inner1),
              [values] "+r"(values), [w] "+r"(w), [x] "+r"(x), [value] "=&r"(value), [t] "+r"(t)
            : [mask] "r"(0xFF0000FF), [end] "r"(end)
            : "r4", "r5", "cc", "memory");
        const int64_t outer = (int64_t)((uint64_t)(uint32_t)outer1 << 32 | outer0) - (int64_t)values * 128;
        const int64_t inner = (int64_t)((uint64_t)(uint32_t)inner1 << 32 | inner0) - (int64_t)values * 128;
        const int32_t low0 = (int32_t)((uint32_t)outer << 8) >> 8;
        const int32_t low2 = (int32_t)((uint32_t)inner << 8) >> 8;
        sum[0] += low0;
        sum[1] += (int32_t)((inner - low2) >> 24);
        sum[2] += low2;
        sum[3] += (int32_t)((outer - low0) >> 24);
    }
}

#endif
