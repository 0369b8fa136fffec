/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, with SDOT.
 *
 * A lane is a row: four of its columns meet the same four activations in each row. Nibbles are used as they lie, 0 to 15,
 * and the sums start at -8 times the activations: (q - 8) x = q x - 8 x.
 * Packing, of the order "lanes": [k / 32][4][8][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [groups][8],
 * of group columns each (32, 64 or 128). x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of
 * the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 8

/* sum plus 8 products of each of 4 rows: a lane of first, and of second, has the activations. */
#define COLIBRI_EIGHT_W4A8(sum, w, first, second, lane)                                                       \
    do {                                                                                                      \
        const uint8x16_t bytes = vld1q_u8(w);                                                                 \
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));                           \
        sum = vdotq_laneq_s32(sum, low, first, lane);                                                         \
        sum = vdotq_laneq_s32(sum, vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4)), second, lane);                  \
    } while (0)

COLIBRI_SHARED void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int shift = group == 32 ? 2 : group == 64 ? 3 : 4; /* of a column's number to its group's factors */
    const int8x16_t minus_eight = vdupq_n_s8(-8);
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int8x16_t first = vld1q_s8(x + i);
        const int8x16_t second = vld1q_s8(x + i + 16);
        int32x4_t part0 = vdotq_s32(vdotq_s32(vdupq_n_s32(0), minus_eight, first), minus_eight, second);
        part0 = vpaddq_s32(part0, part0);
        part0 = vpaddq_s32(part0, part0);
        int32x4_t part1 = part0;
        COLIBRI_EIGHT_W4A8(part0, w, first, second, 0);
        COLIBRI_EIGHT_W4A8(part1, w + 16, first, second, 0);
        COLIBRI_EIGHT_W4A8(part0, w + 32, first, second, 1);
        COLIBRI_EIGHT_W4A8(part1, w + 48, first, second, 1);
        COLIBRI_EIGHT_W4A8(part0, w + 64, first, second, 2);
        COLIBRI_EIGHT_W4A8(part1, w + 80, first, second, 2);
        COLIBRI_EIGHT_W4A8(part0, w + 96, first, second, 3);
        COLIBRI_EIGHT_W4A8(part1, w + 112, first, second, 3);
        const int16x8_t scale = vmovl_s8(vld1_s8(factor + ((unsigned)i >> shift & ~7u)));
        total0 = vmlaq_s32(total0, part0, vmovl_s16(vget_low_s16(scale)));
        total1 = vmlaq_s32(total1, part1, vmovl_high_s16(scale));
        w += 128;
    }
    vst1q_s32(sum, total0);
    vst1q_s32(sum + 4, total1);
}

#endif
