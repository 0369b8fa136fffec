/* dot_planes_a8.h: 4 rows of a matrix of 2 to 6 bits times 8-bit activations, exactly, NEON.
 *
 * Integers are used as they lie. Four products meet in 16 bits: 4 * 63 * 127 < 2^15.
 * Packing, portable/planes.h: [k / 32][plane][4 rows][4 * bits of the plane] bytes, 16-byte aligned at the matrix's start.
 * factors, zeros (or NULL): [groups][4]. bits and group (32, 64 or 128) are constants. x: k values, k a multiple of 32,
 * zero padded; |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A8_H
#define COLIBRI_DOT_PLANES_A8_H

#include "kernels/neon/planes.h"
#include "kernels/neon/rows.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_PLANES_A8_ROWS 4

/* A row's 32 products, in 4 sums. */
COLIBRI_INSIDE int32x4_t colibri_part_planes_a8(const uint8_t *w, int row, int bits, int8x16_t first, int8x16_t second)
{
    const colibri_columns columns = colibri_columns_of(w, row, bits);
    const int8x16_t low = vreinterpretq_s8_u8(columns.first);
    const int8x16_t high = vreinterpretq_s8_u8(columns.second);
    int16x8_t part = vmull_s8(vget_low_s8(low), vget_low_s8(first));
    part = vmlal_high_s8(part, low, first);
    part = vmlal_s8(part, vget_low_s8(high), vget_low_s8(second));
    return vpaddlq_s16(vmlal_high_s8(part, high, second));
}

COLIBRI_INSIDE void colibri_dot_planes_a8(int32_t sum[COLIBRI_DOT_PLANES_A8_ROWS], const uint8_t *restrict w,
                                          const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                          const int8_t *restrict x, int k, int bits, int group)
{
    int32x4_t total = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int8x16_t first = vld1q_s8(x + i);
        const int8x16_t second = vld1q_s8(x + i + 16);
        const int32x4_t part = colibri_four_rows(
            colibri_part_planes_a8(w, 0, bits, first, second), colibri_part_planes_a8(w, 1, bits, first, second),
            colibri_part_planes_a8(w, 2, bits, first, second), colibri_part_planes_a8(w, 3, bits, first, second));
        const int32_t values = vaddvq_s16(vpadalq_s8(vpaddlq_s8(first), second));
        const int at = i / group * COLIBRI_DOT_PLANES_A8_ROWS;
        total = colibri_add_planes(total, part, values, factors + at, zeros == NULL ? NULL : zeros + at, bits);
        w += COLIBRI_DOT_PLANES_A8_ROWS * 4 * bits;
    }
    vst1q_s32(sum, total);
}

#endif
