/* group_sums.h: -8 times the sum of every 32 activations: what weights that have 8 added multiply too much.
 *
 * x: k values in 16 bits each, 4-byte aligned, k a multiple of 32, zero padded. sums: [k / 32].
 */
#ifndef COLIBRI_GROUP_SUMS_H
#define COLIBRI_GROUP_SUMS_H

#include <arm_acle.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

typedef uint32_t __attribute__((may_alias)) colibri_two; /* activations */

COLIBRI_SHARED void colibri_sum_groups(int32_t *restrict sums, const int16_t *restrict x, int k)
{
    const colibri_two *restrict pair = (const void *)x;
    for (; k > 0; k -= 32) {
        int32_t sum = 0;
        for (int i = 0; i < 16; i += 4) {
            sum = __smlad((int16x2_t)pair[i], (int16x2_t)0x00010001, sum);
            sum = __smlad((int16x2_t)pair[i + 1], (int16x2_t)0x00010001, sum);
            sum = __smlad((int16x2_t)pair[i + 2], (int16x2_t)0x00010001, sum);
            sum = __smlad((int16x2_t)pair[i + 3], (int16x2_t)0x00010001, sum);
        }
        pair += 16;
        *sums++ = sum * -8;
    }
}

#endif
