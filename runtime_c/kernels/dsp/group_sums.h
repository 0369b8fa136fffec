/* group_sums.h: -8 times the sum of every 32 activations: what weights that have 8 added multiply too much.
 *
 * x: k values in 16 bits each, 4-byte aligned, k a multiple of 32, zero padded. sums: [k / 32]; y: [k / 32][18].
 */
#ifndef COLIBRI_GROUP_SUMS_H
#define COLIBRI_GROUP_SUMS_H

#include <stdint.h>
#include "kernels/portable/shared.h"

typedef uint32_t __attribute__((may_alias)) colibri_two; /* activations */

#define COLIBRI_SUM_EIGHT                    \
    "ldmia %[pair]!, {r4, r5, r6, r8}\n\t"   \
    "smlad %[sum], r4, %[ones], %[sum]\n\t"  \
    "smlad %[sum], r5, %[ones], %[sum]\n\t"  \
    "smlad %[sum], r6, %[ones], %[sum]\n\t"  \
    "smlad %[sum], r8, %[ones], %[sum]\n\t"

COLIBRI_SHARED void colibri_sum_groups(int32_t *restrict sums, const int16_t *restrict x, int k)
{
    const int16_t *const end = x + k;
    while (x != end) {
        int32_t sum = 0;
        __asm__(COLIBRI_SUM_EIGHT COLIBRI_SUM_EIGHT COLIBRI_SUM_EIGHT COLIBRI_SUM_EIGHT
                : [sum] "+r"(sum), [pair] "+r"(x)
                : [ones] "r"(0x00010001)
                : "r4", "r5", "r6", "r8", "memory");
        *sums++ = sum * -8;
    }
}

#define COLIBRI_COPY_EIGHT COLIBRI_SUM_EIGHT "stmia %[to]!, {r4, r5, r6, r8}\n\t"

/* Groups of 18 words: that sum, 273 times it, and 32 activations. */
COLIBRI_SHARED void colibri_sum_groups_between(int32_t *restrict y, const int16_t *restrict x, int k)
{
    const int16_t *const end = x + k;
    while (x != end) {
        int32_t sum = 0;
        int32_t *restrict to = y + 2;
        __asm__(COLIBRI_COPY_EIGHT COLIBRI_COPY_EIGHT COLIBRI_COPY_EIGHT COLIBRI_COPY_EIGHT
                : [sum] "+r"(sum), [pair] "+r"(x), [to] "+r"(to)
                : [ones] "r"(0x00010001)
                : "r4", "r5", "r6", "r8", "memory");
        y[0] = sum * -8;
        y[1] = sum * -8 * (1 + 16 + 256);
        y = to;
    }
}

#endif
