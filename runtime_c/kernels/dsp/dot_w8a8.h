/* dot_w8a8.h: 4 rows of an 8-bit matrix times 8-bit activations, exactly, with SMLAD.
 *
 * 16 bits hold a weight a of one row and b of the next as a + 256 b. One SMLAD multiplies both with two activations;
 * another, of a alone, tells them apart: the sum of b is (both - sum of a) >> 8 while it is below 2^23, which 520 columns
 * cannot pass. 8 columns of 4 rows take 31 instructions.
 * Packing: [k / 2][2] words, 8-byte aligned; a word has two columns of rows 0 and 1, the next one of rows 2 and 3.
 * x: k values in 16 bits each, 8-byte aligned, k a multiple of 8, zero padded. |w|, |x| <= 127 and 127 * 127 * k < 2^31:
 * no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 4
#define COLIBRI_W8A8_AT_ONCE 512 /* columns */

/* Two columns of a pair of rows: a word of weights, both sums and that of the even row, two activations. */
#define COLIBRI_W8A8_PAIR(w, both, even, x)      \
    "smlad " both ", " w ", " x ", " both "\n\t" \
    "sxtb16 " w ", " w "\n\t"                    \
    "smlad " even ", " w ", " x ", " even "\n\t"
#define COLIBRI_W8A8_PAIR0(w, x) COLIBRI_W8A8_PAIR(w, "%[both0]", "%[even0]", x)
#define COLIBRI_W8A8_PAIR2(w, x) COLIBRI_W8A8_PAIR(w, "%[both2]", "%[even2]", x)

COLIBRI_ASSEMBLY void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                       const int16_t *restrict x, int k)
{
    int32_t odd0 = 0;
    int32_t odd2 = 0;
    int32_t even0 = 0;
    int32_t even2 = 0;
    while (k > 0) {
        int32_t both0 = even0;
        int32_t both2 = even2;
        int eights = (k < COLIBRI_W8A8_AT_ONCE ? k : COLIBRI_W8A8_AT_ONCE) / 8;
        int32_t x0;
        int32_t x1;
        k -= eights * 8;
        __asm__("1:\n\t"
                "ldrd %[x0], %[x1], [%[x]], #8\n\t"
                "ldmia %[w]!, {r4, r5, r6}\n\t" /* a fourth would leave clang, with its frame pointer, too few */
                COLIBRI_W8A8_PAIR0("r4", "%[x0]") COLIBRI_W8A8_PAIR2("r5", "%[x0]") COLIBRI_W8A8_PAIR0("r6", "%[x1]")
                "ldmia %[w]!, {r4, r5, r6}\n\t"
                COLIBRI_W8A8_PAIR2("r4", "%[x1]")
                "ldrd %[x0], %[x1], [%[x]], #8\n\t"
                COLIBRI_W8A8_PAIR0("r5", "%[x0]") COLIBRI_W8A8_PAIR2("r6", "%[x0]")
                "ldrd r4, r5, [%[w]], #8\n\t"
                COLIBRI_W8A8_PAIR0("r4", "%[x1]") COLIBRI_W8A8_PAIR2("r5", "%[x1]")
                "subs %[eights], #1\n\t"
                "bne 1b"
                : [both0] "+r"(both0), [both2] "+r"(both2), [even0] "+r"(even0), [even2] "+r"(even2), [w] "+r"(w),
                  [x] "+r"(x), [eights] "+r"(eights), [x0] "=&r"(x0), [x1] "=&r"(x1)
                :
                : "r4", "r5", "r6", "cc", "memory");
        odd0 += (int32_t)((uint32_t)both0 - (uint32_t)even0) >> 8;
        odd2 += (int32_t)((uint32_t)both2 - (uint32_t)even2) >> 8;
    }
    sum[0] = even0;
    sum[1] = odd0;
    sum[2] = even2;
    sum[3] = odd2;
}

#endif
