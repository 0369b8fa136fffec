/* dot_planes_a16.h: 4 rows of a matrix of 2 to 6 bits times 16-bit activations, exactly, NEON.
 *
 * Integers are used as they lie. Packing, portable/planes.h: [k / 32][plane][4 rows][4 * bits of the plane] bytes, 16-byte
 * aligned at the matrix's start. factors, zeros (or NULL): [groups][4]. bits and group (32, 64 or 128) are constants.
 * x: k values, k a multiple of 32, zero padded; |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A16_H
#define COLIBRI_DOT_PLANES_A16_H

#include "kernels/neon/planes.h"
#include "kernels/neon/rows.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_PLANES_A16_ROWS 4

/* part plus 16 products, in 4 sums. */
static inline int32x4_t colibri_half_planes_a16(int32x4_t part, uint8x16_t columns, int16x8_t first, int16x8_t second)
{
    const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(columns)));
    const int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(columns));
    part = vmlal_s16(part, vget_low_s16(low), vget_low_s16(first));
    part = vmlal_high_s16(part, low, first);
    part = vmlal_s16(part, vget_low_s16(high), vget_low_s16(second));
    return vmlal_high_s16(part, high, second);
}

/* A row's 32 products, in 4 sums. */
COLIBRI_INSIDE int32x4_t colibri_part_planes_a16(const uint8_t *w, int row, int bits, const int16x8_t values[4])
{
    const colibri_columns columns = colibri_columns_of(w, row, bits);
    const int32x4_t part = colibri_half_planes_a16(vdupq_n_s32(0), columns.first, values[0], values[1]);
    return colibri_half_planes_a16(part, columns.second, values[2], values[3]);
}

COLIBRI_INSIDE void colibri_dot_planes_a16(int32_t sum[COLIBRI_DOT_PLANES_A16_ROWS], const uint8_t *restrict w,
                                           const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                           const int16_t *restrict x, int k, int bits, int group)
{
    int32x4_t total = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int16x8_t values[4] = {vld1q_s16(x + i), vld1q_s16(x + i + 8), vld1q_s16(x + i + 16),
                                     vld1q_s16(x + i + 24)};
        const int32x4_t part =
            colibri_four_rows(colibri_part_planes_a16(w, 0, bits, values), colibri_part_planes_a16(w, 1, bits, values),
                              colibri_part_planes_a16(w, 2, bits, values), colibri_part_planes_a16(w, 3, bits, values));
        const int32x4_t half = vpadalq_s16(vpaddlq_s16(values[0]), values[1]);
        const int32_t all = vaddvq_s32(vpadalq_s16(vpadalq_s16(half, values[2]), values[3]));
        const int at = i / group * COLIBRI_DOT_PLANES_A16_ROWS;
        total = colibri_add_planes(total, part, all, factors + at, zeros == NULL ? NULL : zeros + at, bits);
        w += COLIBRI_DOT_PLANES_A16_ROWS * 4 * bits;
    }
    vst1q_s32(sum, total);
}

#endif
