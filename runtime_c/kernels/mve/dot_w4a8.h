/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, MVE.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x. Four rows'
 * sums of a group become a vector, which the groups' scales multiply. In assembler, since compilers move pointers that a
 * load could, an instruction each.
 * Packing: [k / 32][8][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][8]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 8

/* part = a row's group, q times the activations in q0 and q1; q4 is 15 in each byte. */
#define COLIBRI_ROW_W4A8(part)                \
    "   vldrb.8     q2, [%[w]], #16\n"        \
    "   vshr.u8     q3, q2, #4\n"             \
    "   vand        q2, q2, q4\n"             \
    "   vmladav.s8  %[" part "], q2, q0\n"    \
    "   vmladava.s8 %[" part "], q3, q1\n"

/* total, a vector of four rows, plus their sums of the group; start is -8 times the activations. */
#define COLIBRI_ROWS_W4A8(total)                        \
    COLIBRI_ROW_W4A8("part0")                           \
    COLIBRI_ROW_W4A8("part1")                           \
    COLIBRI_ROW_W4A8("part2")                           \
    COLIBRI_ROW_W4A8("part3")                           \
    "   vmov        q2[2], q2[0], %[part0], %[part2]\n" \
    "   vmov        q2[3], q2[1], %[part1], %[part3]\n" \
    "   vldrb.s32   q3, [%[factors]], #4\n"             \
    "   vadd.i32    q2, q2, %[start]\n"                 \
    "   vmul.i32    q2, q2, q3\n"                       \
    "   vadd.i32    " total ", " total ", q2\n"

COLIBRI_ASSEMBLY void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    int32_t start, part0, part1, part2, part3;
    __asm__ volatile(
        "   vmov.i8     q4, #15\n"
        "   vmov.i8     q5, #0xF8\n"
        "   vmov.i32    q6, #0\n"
        "   vmov.i32    q7, #0\n"
        "   dls         lr, %[groups]\n"
        "1: vldrb.8     q0, [%[x]], #16\n"
        "   vldrb.8     q1, [%[x]], #16\n"
        "   vmladav.s8  %[start], q5, q0\n"
        "   vmladava.s8 %[start], q5, q1\n"
        COLIBRI_ROWS_W4A8("q6")
        COLIBRI_ROWS_W4A8("q7")
        "   le          lr, 1b\n"
        "   vstrw.32    q6, [%[sum]]\n"
        "   vstrw.32    q7, [%[sum], #16]"
        : [start] "=&Te"(start), [part0] "=&Te"(part0), [part1] "=&Te"(part1), [part2] "=&Te"(part2),
          [part3] "=&Te"(part3), [w] "+r"(w), [factors] "+l"(factors), [x] "+r"(x)
        : [groups] "r"(k / 32), [sum] "r"(sum)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

#endif
