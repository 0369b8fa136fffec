/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, 32-bit RISC-V.
 *
 * One multiplication does two columns c and d: (q_c + 2^16 q_d) (x_d + 2^16 x_c) modulo 2^32 has in its upper half
 * q_c x_c + q_d x_d, above q_c x_d. In a group of 32 columns either half sums up to at most 32 * 8 * 127 < 2^15 once 8
 * is taken off each q, so that both can be told apart then. In assembler, since gcc schedules loads so early that
 * registers run out.
 * Packing: [k / 32][4][16] bytes, 4-byte aligned; byte c of a group holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and
 * |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4

/* pair = x_d + 2^16 x_c of the columns at the given places; values plus it. */
#define COLIBRI_PAIR_W4A8(pair, c, d)                   \
    "   lb   %[t], " c "(%[x])\n"                       \
    "   lb   %[" pair "], " d "(%[x])\n"                \
    "   slli %[t], %[t], 16\n"                          \
    "   add  %[" pair "], %[" pair "], %[t]\n"          \
    "   add  %[values], %[values], %[" pair "]\n"

/* part plus the products of a pair of columns, and of a row's 4 pairs. */
#define COLIBRI_ADD_W4A8(part, pair, from)              \
    "   and  %[t], %[" from "], %[mask]\n"              \
    "   mul  %[t], %[t], %[" pair "]\n"                 \
    "   add  %[" part "], %[" part "], %[t]\n"
#define COLIBRI_ROW_W4A8(part, at)                      \
    "   lw   %[word], " at "(%[w])\n"                   \
    COLIBRI_ADD_W4A8(part, "pair0", "word")             \
    "   srli %[t], %[word], 4\n"                        \
    COLIBRI_ADD_W4A8(part, "pair1", "t")                \
    "   srli %[t], %[word], 8\n"                        \
    COLIBRI_ADD_W4A8(part, "pair2", "t")                \
    "   srli %[t], %[word], 12\n"                       \
    COLIBRI_ADD_W4A8(part, "pair3", "t")

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
    int32_t total0 = 0;
    int32_t total1 = 0;
    int32_t total2 = 0;
    int32_t total3 = 0;
    for (int i = k / 32; i > 0; i--) {
        const int8_t *const end = x + 16;
        uint32_t part0 = 0;
        uint32_t part1 = 0;
        uint32_t part2 = 0;
        uint32_t part3 = 0;
        uint32_t values = 0;
        uint32_t pair0, pair1, pair2, pair3, word, t;
        __asm__(
            "1:\n"
            COLIBRI_PAIR_W4A8("pair0", "0", "2")
            COLIBRI_PAIR_W4A8("pair1", "16", "18")
            COLIBRI_PAIR_W4A8("pair2", "1", "3")
            COLIBRI_PAIR_W4A8("pair3", "17", "19")
            COLIBRI_ROW_W4A8("part0", "0")
            COLIBRI_ROW_W4A8("part1", "16")
            COLIBRI_ROW_W4A8("part2", "32")
            COLIBRI_ROW_W4A8("part3", "48")
            "   addi %[x], %[x], 4\n"
            "   addi %[w], %[w], 4\n"
            "   bne  %[x], %[end], 1b"
            : [part0] "+r"(part0), [part1] "+r"(part1), [part2] "+r"(part2), [part3] "+r"(part3),
              [values] "+r"(values), [w] "+r"(w), [x] "+r"(x), [pair0] "=&r"(pair0), [pair1] "=&r"(pair1),
              [pair2] "=&r"(pair2), [pair3] "=&r"(pair3), [word] "=&r"(word), [t] "=&r"(t)
            : [mask] "r"(0x000F000F), [end] "r"(end)
            : "memory");
        const uint32_t eights = values * 0x00080008;
        total0 += colibri_upper_w4a8(part0, eights) * factor[0];
        total1 += colibri_upper_w4a8(part1, eights) * factor[1];
        total2 += colibri_upper_w4a8(part2, eights) * factor[2];
        total3 += colibri_upper_w4a8(part3, eights) * factor[3];
        factor += COLIBRI_DOT_W4A8_ROWS;
        w += 48;
        x += 16;
    }
    sum[0] = total0;
    sum[1] = total1;
    sum[2] = total2;
    sum[3] = total3;
}

#endif
