/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, Armv7-M.
 *
 * With its upper bit turned over, a nibble is a signed number of 4 bits, which an instruction cuts out. In assembler,
 * since gcc runs out of registers.
 * Packing: [k / 32][4][16] bytes, 4-byte aligned; byte c of a group holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and
 * |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 4

/* part plus the product of an activation with a row's nibble at bit. */
#define COLIBRI_ROW_W4A16(part, word, bit)                      \
    "   sbfx    %[t], " word ", #" bit ", #4\n"                 \
    "   mla     %[" part "], %[t], %[value], %[" part "]\n"

/* A column of four rows, whose words are in r4, r5, r6 and r8; at: of the activation, from x. */
#define COLIBRI_COLUMN_W4A16(at, bit)                           \
    "   ldrsh   %[value], [%[x], #" at "]\n"                    \
    COLIBRI_ROW_W4A16("part0", "r4", bit)                       \
    COLIBRI_ROW_W4A16("part1", "r5", bit)                       \
    COLIBRI_ROW_W4A16("part2", "r6", bit)                       \
    COLIBRI_ROW_W4A16("part3", "r8", bit)

COLIBRI_ASSEMBLY void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                        const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    for (int row = 0; row < COLIBRI_DOT_W4A16_ROWS; row++) {
        sum[row] = 0;
    }
    for (int i = k / 32; i > 0; i--) {
        int32_t part0 = 0, part1 = 0, part2 = 0, part3 = 0, value, t;
        __asm__(
            "1: ldr     r4, [%[w]], #4\n"
            "   ldr     r5, [%[w], #12]\n"
            "   ldr     r6, [%[w], #28]\n"
            "   ldr     r8, [%[w], #44]\n"
            "   eor     r4, r4, #0x88888888\n"
            "   eor     r5, r5, #0x88888888\n"
            "   eor     r6, r6, #0x88888888\n"
            "   eor     r8, r8, #0x88888888\n"
            COLIBRI_COLUMN_W4A16("0", "0")
            COLIBRI_COLUMN_W4A16("2", "8")
            COLIBRI_COLUMN_W4A16("4", "16")
            COLIBRI_COLUMN_W4A16("6", "24")
            COLIBRI_COLUMN_W4A16("32", "4")
            COLIBRI_COLUMN_W4A16("34", "12")
            COLIBRI_COLUMN_W4A16("36", "20")
            COLIBRI_COLUMN_W4A16("38", "28")
            "   adds    %[x], %[x], #8\n"
            "   cmp     %[x], %[end]\n"
            "   bne     1b"
            : [part0] "+r"(part0), [part1] "+r"(part1), [part2] "+r"(part2), [part3] "+r"(part3),
              [w] "+r"(w), [x] "+r"(x), [value] "=&r"(value), [t] "=&r"(t)
            : [end] "r"(x + 16)
            : "r4", "r5", "r6", "r8", "cc", "memory");
        sum[0] += part0 * factor[0];
        sum[1] += part1 * factor[1];
        sum[2] += part2 * factor[2];
        sum[3] += part3 * factor[3];
        factor += COLIBRI_DOT_W4A16_ROWS;
        w += 48;
        x += 16;
    }
}

#endif
