/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, MVE.
 *
 * In assembler, since compilers move pointers that a load could, an instruction each.
 * Packing: [k / 8][4][8] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 8, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>

#define COLIBRI_DOT_W8A16_ROWS 4

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    int32_t total0 = 0;
    int32_t total1 = 0;
    int32_t total2 = 0;
    int32_t total3 = 0;
    __asm__ volatile(
        "   dls          lr, %[turns]\n"
        "1: vldrh.16     q0, [%[x]], #16\n"
        "   vldrb.s16    q1, [%[w]], #8\n"
        "   vmladava.s16 %[total0], q0, q1\n"
        "   vldrb.s16    q1, [%[w]], #8\n"
        "   vmladava.s16 %[total1], q0, q1\n"
        "   vldrb.s16    q1, [%[w]], #8\n"
        "   vmladava.s16 %[total2], q0, q1\n"
        "   vldrb.s16    q1, [%[w]], #8\n"
        "   vmladava.s16 %[total3], q0, q1\n"
        "   le           lr, 1b\n"
        "   strd         %[total0], %[total1], [%[sum]]\n"
        "   strd         %[total2], %[total3], [%[sum], #8]"
        : [total0] "+Te"(total0), [total1] "+Te"(total1), [total2] "+Te"(total2), [total3] "+Te"(total3),
          [w] "+l"(w), [x] "+r"(x)
        : [turns] "r"(k / 8), [sum] "r"(sum)
        : "lr", "q0", "q1", "memory");
}

#endif
