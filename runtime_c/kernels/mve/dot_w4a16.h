/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, MVE.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x. The rows'
 * sums of a group become a vector, which the groups' scales multiply. In assembler, since compilers move pointers that a
 * load could, an instruction each.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 4

/* part = a row's group, q times the activations in q0 to q3; q6 is 15 in each element. */
#define COLIBRI_ROW_W4A16(part)               \
    "   vldrb.u16    q4, [%[w]], #8\n"        \
    "   vshr.u16     q5, q4, #4\n"            \
    "   vand         q4, q4, q6\n"            \
    "   vmladav.s16  %[" part "], q4, q0\n"   \
    "   vmladava.s16 %[" part "], q5, q2\n"   \
    "   vldrb.u16    q4, [%[w]], #8\n"        \
    "   vshr.u16     q5, q4, #4\n"            \
    "   vand         q4, q4, q6\n"            \
    "   vmladava.s16 %[" part "], q4, q1\n"   \
    "   vmladava.s16 %[" part "], q5, q3\n"

COLIBRI_ASSEMBLY void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                        const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    int32_t values, part0, part1, part2, part3;
    __asm__ volatile(
        "   vmov.i16     q6, #15\n"
        "   vmov.i32     q7, #0\n"
        "   dls          lr, %[groups]\n"
        "1: vldrh.16     q0, [%[x]], #16\n"
        "   vldrh.16     q1, [%[x]], #16\n"
        "   vldrh.16     q2, [%[x]], #16\n"
        "   vldrh.16     q3, [%[x]], #16\n"
        "   vaddv.s16    %[values], q0\n"
        "   vaddva.s16   %[values], q1\n"
        "   vaddva.s16   %[values], q2\n"
        "   vaddva.s16   %[values], q3\n"
        COLIBRI_ROW_W4A16("part0")
        COLIBRI_ROW_W4A16("part1")
        COLIBRI_ROW_W4A16("part2")
        COLIBRI_ROW_W4A16("part3")
        "   vmov         q4[2], q4[0], %[part0], %[part2]\n"
        "   vmov         q4[3], q4[1], %[part1], %[part3]\n"
        "   vldrb.s32    q5, [%[factors]], #4\n"
        "   lsl          %[values], %[values], #3\n"
        "   vsub.i32     q4, q4, %[values]\n"
        "   vmul.i32     q4, q4, q5\n"
        "   vadd.i32     q7, q7, q4\n"
        "   le           lr, 1b\n"
        "   vstrw.32     q7, [%[sum]]"
        : [values] "=&Te"(values), [part0] "=&Te"(part0), [part1] "=&Te"(part1), [part2] "=&Te"(part2),
          [part3] "=&Te"(part3), [w] "+l"(w), [factors] "+l"(factors), [x] "+r"(x)
        : [groups] "r"(k / 32), [sum] "r"(sum)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");
}

#endif
