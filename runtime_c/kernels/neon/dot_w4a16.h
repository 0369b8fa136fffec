/* dot_w4a16.h: 8 rows of a 4-bit matrix times 16-bit activations, exactly, NEON.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x.
 * Packing: [k / 32][8][16] bytes, 16-byte aligned at the matrix's start; byte c of a group of 32 holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [groups][8], of group columns each (32, 64 or 128).
 * x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that
 * 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/neon/rows.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 8

/* A row's 32 products, in 4 sums. */
COLIBRI_INSIDE int32x4_t colibri_part_w4a16(const uint8_t *w, const int16x8_t values[4])
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    const int16x8_t low0 = vmovl_s8(vget_low_s8(low));
    const int16x8_t low1 = vmovl_high_s8(low);
    const int16x8_t high0 = vmovl_s8(vget_low_s8(high));
    const int16x8_t high1 = vmovl_high_s8(high);
    int32x4_t part = vmull_s16(vget_low_s16(low0), vget_low_s16(values[0]));
    part = vmlal_high_s16(part, low0, values[0]);
    part = vmlal_s16(part, vget_low_s16(low1), vget_low_s16(values[1]));
    part = vmlal_high_s16(part, low1, values[1]);
    part = vmlal_s16(part, vget_low_s16(high0), vget_low_s16(values[2]));
    part = vmlal_high_s16(part, high0, values[2]);
    part = vmlal_s16(part, vget_low_s16(high1), vget_low_s16(values[3]));
    return vmlal_high_s16(part, high1, values[3]);
}

/* Those of four rows, a lane each. */
COLIBRI_INSIDE int32x4_t colibri_four_w4a16(const uint8_t *w, const int16x8_t values[4])
{
    return colibri_four_rows(colibri_part_w4a16(w, values), colibri_part_w4a16(w + 16, values),
                             colibri_part_w4a16(w + 32, values), colibri_part_w4a16(w + 48, values));
}

COLIBRI_SHARED void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int16_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int shift = group == 32 ? 2 : group == 64 ? 3 : 4; /* of a column's number to its group's factors */
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int16x8_t values[4] = {vld1q_s16(x + i), vld1q_s16(x + i + 8), vld1q_s16(x + i + 16),
                                     vld1q_s16(x + i + 24)};
        int32x4_t excess = vpadalq_s16(vpaddlq_s16(values[0]), values[1]);
        excess = vpadalq_s16(vpadalq_s16(excess, values[2]), values[3]);
        excess = vpaddq_s32(excess, excess);
        excess = vshlq_n_s32(vpaddq_s32(excess, excess), 3);
        const int32x4_t part0 = vsubq_s32(colibri_four_w4a16(w, values), excess);
        const int32x4_t part1 = vsubq_s32(colibri_four_w4a16(w + 64, values), excess);
        const int16x8_t scale = vmovl_s8(vld1_s8(factor + ((unsigned)i >> shift & ~7u)));
        total0 = vmlaq_s32(total0, part0, vmovl_s16(vget_low_s16(scale)));
        total1 = vmlaq_s32(total1, part1, vmovl_high_s16(scale));
        w += 128;
    }
    vst1q_s32(sum, total0);
    vst1q_s32(sum + 4, total1);
}

#endif
