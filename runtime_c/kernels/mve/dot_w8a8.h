/* dot_w8a8.h: 4 rows of an 8-bit matrix times 8-bit activations, exactly, MVE.
 *
 * In assembler, since compilers move pointers that a load could, an instruction each.
 * Packing: [k / 16][4][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 4

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    int32_t total0 = 0;
    int32_t total1 = 0;
    int32_t total2 = 0;
    int32_t total3 = 0;
    __asm__ volatile(
        "   dls         lr, %[turns]\n"
        "1: vldrb.8     q0, [%[x]], #16\n"
        "   vldrb.8     q1, [%[w]], #16\n"
        "   vmladava.s8 %[total0], q0, q1\n"
        "   vldrb.8     q1, [%[w]], #16\n"
        "   vmladava.s8 %[total1], q0, q1\n"
        "   vldrb.8     q1, [%[w]], #16\n"
        "   vmladava.s8 %[total2], q0, q1\n"
        "   vldrb.8     q1, [%[w]], #16\n"
        "   vmladava.s8 %[total3], q0, q1\n"
        "   le          lr, 1b\n"
        "   strd        %[total0], %[total1], [%[sum]]\n"
        "   strd        %[total2], %[total3], [%[sum], #8]"
        : [total0] "+Te"(total0), [total1] "+Te"(total1), [total2] "+Te"(total2), [total3] "+Te"(total3),
          [w] "+r"(w), [x] "+r"(x)
        : [turns] "r"(k / 16), [sum] "r"(sum)
        : "lr", "q0", "q1", "memory");
}

#endif
