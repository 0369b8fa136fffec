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

/* part plus the products of the pair of activations with a row's nibbles shift bits up in each half of its word. */
#define COLIBRI_ROW_W4A8(part, at, shift)       \
    "   ldr     %[t], [%[w], #" at "]\n"        \
    shift                                       \
    "   ands    %[t], %[mask]\n"                \
    "   muls    %[t], %[pair]\n"                \
    "   add     %[" part "], %[t]\n"

/* Columns c and d of four rows. */
#define COLIBRI_PAIR_W4A8(c, d, shift)          \
    "   ldrb    %[pair], [%[x], #" c "]\n"      \
    "   lsls    %[pair], %[pair], #24\n"        \
    "   asrs    %[pair], %[pair], #8\n"         \
    "   ldrb    %[t], [%[x], #" d "]\n"         \
    "   sxtb    %[t], %[t]\n"                   \
    "   adds    %[pair], %[pair], %[t]\n"       \
    "   add     %[values], %[pair]\n"           \
    COLIBRI_ROW_W4A8("part0", "0", shift)       \
    COLIBRI_ROW_W4A8("part1", "16", shift)      \
    COLIBRI_ROW_W4A8("part2", "32", shift)      \
    COLIBRI_ROW_W4A8("part3", "48", shift)

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
        uint32_t part0 = 0, part1 = 0, part2 = 0, part3 = 0, values = 0, pair, t;
        __asm__(
            "   .syntax unified\n"
            "1:\n"
            COLIBRI_PAIR_W4A8("0", "2", "")
            COLIBRI_PAIR_W4A8("16", "18", "   lsrs    %[t], %[t], #4\n")
            COLIBRI_PAIR_W4A8("1", "3", "   lsrs    %[t], %[t], #8\n")
            COLIBRI_PAIR_W4A8("17", "19", "   lsrs    %[t], %[t], #12\n")
            "   adds    %[x], %[x], #4\n"
            "   adds    %[w], %[w], #4\n"
            "   cmp     %[x], %[end]\n"
            "   bne     1b"
            : [part0] "+h"(part0), [part1] "+h"(part1), [part2] "+h"(part2), [part3] "+h"(part3),
              [values] "+h"(values), [w] "+l"(w), [x] "+l"(x), [pair] "=&l"(pair), [t] "=&l"(t)
            : [mask] "l"(0x000F000F), [end] "l"(x + 16)
            : "cc", "memory");
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
