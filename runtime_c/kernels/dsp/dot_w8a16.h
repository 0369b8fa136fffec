/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, with SMLALD.
 *
 * As dot_w8a8.h, but the sum of a + 256 b has 64 bits, so that any number of columns can be told apart at the end.
 * 8 columns of 4 rows take 34 instructions.
 * Packing: [k / 2][2] words, 8-byte aligned; a word has two columns of rows 0 and 1, the next one of rows 2 and 3.
 * x: k values, 8-byte aligned, k a multiple of 8, zero padded. |w| <= 127 and |x| <= qmax of the op, chosen so that
 * 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 4

/* Two columns of four rows. */
#define COLIBRI_W8A16_TWO                        \
    "ldrd %[w0], %[w2], [%[w]], #8\n\t"          \
    "ldr %[x0], [%[x]], #4\n\t"                  \
    "smlald %[low0], %[high0], %[w0], %[x0]\n\t" \
    "sxtb16 %[w0], %[w0]\n\t"                    \
    "smlald %[low2], %[high2], %[w2], %[x0]\n\t" \
    "sxtb16 %[w2], %[w2]\n\t"                    \
    "smlad %[even0], %[w0], %[x0], %[even0]\n\t" \
    "smlad %[even2], %[w2], %[x0], %[even2]\n\t"
#define COLIBRI_W8A16_FOUR COLIBRI_W8A16_TWO COLIBRI_W8A16_TWO

/* The sum of b, of those of a + 256 b and of a. */
static inline int32_t colibri_odd(uint32_t low, int32_t high, int32_t even)
{
    const int64_t both = (int64_t)((uint64_t)(uint32_t)high << 32 | low);
    return (int32_t)((both - even) >> 8);
}

COLIBRI_ASSEMBLY void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                        const int16_t *restrict x, int k)
{
    uint32_t low0 = 0;
    uint32_t low2 = 0;
    int32_t high0 = 0;
    int32_t high2 = 0;
    int32_t even0 = 0;
    int32_t even2 = 0;
    int32_t eights = k / 8;
    int32_t w0;
    int32_t w2;
    int32_t x0;
    __asm__("1:\n\t" COLIBRI_W8A16_FOUR COLIBRI_W8A16_FOUR "subs %[eights], #1\n\t"
            "bne 1b"
            : [low0] "+r"(low0), [high0] "+r"(high0), [low2] "+r"(low2), [high2] "+r"(high2), [even0] "+r"(even0),
              [even2] "+r"(even2), [w] "+r"(w), [x] "+r"(x), [eights] "+r"(eights), [w0] "=&r"(w0), [w2] "=&r"(w2),
              [x0] "=&r"(x0)
            :
            : "cc", "memory");
    sum[0] = even0;
    sum[1] = colibri_odd(low0, high0, even0);
    sum[2] = even2;
    sum[3] = colibri_odd(low2, high2, even2);
}

#endif
