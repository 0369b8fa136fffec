/* dot_w4a8.h: as portable/pairs_dot_w4a8.h, 32-bit RISC-V.
 *
 * In assembler, since gcc schedules loads so early that registers run out: 8 columns of 4 rows take 71 instructions.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"
#include "kernels/rv32im/linear.h"

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

COLIBRI_INSIDE void colibri_group_w4a8(uint32_t part[4], const uint8_t *restrict w, const uint32_t *restrict pairs,
                                       uint32_t start)
{
    const uint32_t *const end = pairs + 16;
    uint32_t part0 = start;
    uint32_t part1 = start;
    uint32_t part2 = start;
    uint32_t part3 = start;
    uint32_t pair0, pair1, pair2, pair3, word, t;
    __asm__(
        "1: lw   %[pair0], 0(%[pairs])\n"
        "   lw   %[pair1], 4(%[pairs])\n"
        "   lw   %[pair2], 8(%[pairs])\n"
        "   lw   %[pair3], 12(%[pairs])\n"
        COLIBRI_ROW_W4A8("part0", "0")
        COLIBRI_ROW_W4A8("part1", "16")
        COLIBRI_ROW_W4A8("part2", "32")
        COLIBRI_ROW_W4A8("part3", "48")
        "   addi %[pairs], %[pairs], 16\n"
        "   addi %[w], %[w], 4\n"
        "   bne  %[pairs], %[end], 1b"
        : [part0] "+r"(part0), [part1] "+r"(part1), [part2] "+r"(part2), [part3] "+r"(part3), [w] "+r"(w),
          [pairs] "+r"(pairs), [pair0] "=&r"(pair0), [pair1] "=&r"(pair1), [pair2] "=&r"(pair2), [pair3] "=&r"(pair3),
          [word] "=&r"(word), [t] "=&r"(t)
        : [mask] "r"(0x000F000F), [end] "r"(end)
        : "memory");
    part[0] = part0;
    part[1] = part1;
    part[2] = part2;
    part[3] = part3;
}

#include "kernels/portable/pairs_dot_w4a8.h"

#endif
