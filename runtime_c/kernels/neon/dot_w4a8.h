/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, NEON.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off, all modulo 2^16: what is left of 32
 * products is at most 8 * 127 * 32 < 2^15. Pairwise additions leave a row in each lane.
 * Packing: [k / 32][8][16] bytes, 16-byte aligned at the matrix's start; byte c of a group of 32 holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [groups][8], of group columns each (32, 64 or 128).
 * x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that
 * 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 8

/* A row's 32 products, in 8 sums. */
static inline int16x8_t colibri_part_w4a8(const uint8_t *w, int8x16_t first, int8x16_t second)
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    int16x8_t part = vmull_s8(vget_low_s8(low), vget_low_s8(first));
    part = vmlal_high_s8(part, low, first);
    part = vmlal_s8(part, vget_low_s8(high), vget_low_s8(second));
    return vmlal_high_s8(part, high, second);
}

/* Those of four rows, in 2 sums each. */
static inline int16x8_t colibri_four_w4a8(const uint8_t *w, int8x16_t first, int8x16_t second)
{
    const int16x8_t rows01 = vpaddq_s16(colibri_part_w4a8(w, first, second), colibri_part_w4a8(w + 16, first, second));
    const int16x8_t rows23 =
        vpaddq_s16(colibri_part_w4a8(w + 32, first, second), colibri_part_w4a8(w + 48, first, second));
    return vpaddq_s16(rows01, rows23);
}

COLIBRI_SHARED void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int shift = group == 32 ? 2 : group == 64 ? 3 : 4; /* of a column's number to its group's factors */
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int8x16_t first = vld1q_s8(x + i);
        const int8x16_t second = vld1q_s8(x + i + 16);
        int16x8_t values = vpadalq_s8(vpaddlq_s8(first), second);
        values = vpaddq_s16(values, values);
        values = vpaddq_s16(values, values);
        values = vpaddq_s16(values, values);
        const int16x8_t rows =
            vpaddq_s16(colibri_four_w4a8(w, first, second), colibri_four_w4a8(w + 64, first, second));
        const int16x8_t part = vsubq_s16(rows, vshlq_n_s16(values, 3));
        const int16x8_t scale = vmovl_s8(vld1_s8(factor + ((unsigned)i >> shift & ~7u)));
        total0 = vmlal_s16(total0, vget_low_s16(part), vget_low_s16(scale));
        total1 = vmlal_high_s16(total1, part, scale);
        w += 128;
    }
    vst1q_s32(sum, total0);
    vst1q_s32(sum + 4, total1);
}

#endif
