/* dot_w8a16.h: rows of an 8-bit matrix times 16-bit activations, exactly.
 *
 * Packing: [k] int8 a row. x: k values. |w| <= 127 and |x| <= qmax of the op, chosen so that
 * 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>

#include "kernels/portable/unroll.h"

#define COLIBRI_DOT_W8A16_ROWS 1

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    const int8_t *restrict row = (const int8_t *)w;
    int32_t total = 0;
    COLIBRI_IN_EIGHTS
    for (int i = 0; i < k; i++) {
        total += row[i] * x[i];
    }
    sum[0] = total;
}

#endif
