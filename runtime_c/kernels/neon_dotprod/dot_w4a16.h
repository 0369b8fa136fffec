/* dot_w4a16.h: 8 rows of a 4-bit matrix times 16-bit activations, exactly, with SDOT and UDOT.
 *
 * An activation is 256 times its upper byte, which has the sign, plus its lower byte, which has none; nibbles are used as
 * they lie, 0 to 15, so that both instructions may read them. 8 times the activations is taken off.
 * Packing, of the order "lanes": [k / 32][4][8][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [groups][8],
 * of group columns each (32, 64 or 128). x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of
 * the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 8

/* 16 activations by their bytes. */
typedef struct colibri_halves {
    uint8x16_t lower;
    int8x16_t upper;
} colibri_halves;

/* Sums of products of four rows with the lower and the upper bytes. */
typedef struct colibri_sums_w4a16 {
    uint32x4_t lower;
    int32x4_t upper;
} colibri_sums_w4a16;

static inline colibri_halves colibri_halves_of(int16x8_t first, int16x8_t second)
{
    const colibri_halves halves = {vuzp1q_u8(vreinterpretq_u8_s16(first), vreinterpretq_u8_s16(second)),
                                   vuzp2q_s8(vreinterpretq_s8_s16(first), vreinterpretq_s8_s16(second))};
    return halves;
}

/* sums plus 8 products of each of 4 rows: a lane of first, and of second, has the activations. */
#define COLIBRI_EIGHT_W4A16(sums, w, first, second, lane)                                                  \
    do {                                                                                                   \
        const uint8x16_t bytes = vld1q_u8(w);                                                              \
        const uint8x16_t low = vandq_u8(bytes, vdupq_n_u8(15));                                            \
        const uint8x16_t high = vshrq_n_u8(bytes, 4);                                                      \
        (sums).lower = vdotq_laneq_u32((sums).lower, low, (first).lower, lane);                            \
        (sums).upper = vdotq_laneq_s32((sums).upper, vreinterpretq_s8_u8(low), (first).upper, lane);       \
        (sums).lower = vdotq_laneq_u32((sums).lower, high, (second).lower, lane);                          \
        (sums).upper = vdotq_laneq_s32((sums).upper, vreinterpretq_s8_u8(high), (second).upper, lane);     \
    } while (0)

static inline int32x4_t colibri_whole_w4a16(colibri_sums_w4a16 sums)
{
    return vaddq_s32(vreinterpretq_s32_u32(sums.lower), vshlq_n_s32(sums.upper, 8));
}

COLIBRI_SHARED void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int16_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int shift = group == 32 ? 2 : group == 64 ? 3 : 4; /* of a column's number to its group's factors */
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int16x8_t values0 = vld1q_s16(x + i);
        const int16x8_t values1 = vld1q_s16(x + i + 8);
        const int16x8_t values2 = vld1q_s16(x + i + 16);
        const int16x8_t values3 = vld1q_s16(x + i + 24);
        const colibri_halves first = colibri_halves_of(values0, values1);
        const colibri_halves second = colibri_halves_of(values2, values3);
        int32x4_t excess = vpadalq_s16(vpaddlq_s16(values0), values1);
        excess = vpadalq_s16(vpadalq_s16(excess, values2), values3);
        excess = vpaddq_s32(excess, excess);
        excess = vshlq_n_s32(vpaddq_s32(excess, excess), 3);
        colibri_sums_w4a16 part0 = {vdupq_n_u32(0), vdupq_n_s32(0)};
        colibri_sums_w4a16 part1 = part0;
        COLIBRI_EIGHT_W4A16(part0, w, first, second, 0);
        COLIBRI_EIGHT_W4A16(part1, w + 16, first, second, 0);
        COLIBRI_EIGHT_W4A16(part0, w + 32, first, second, 1);
        COLIBRI_EIGHT_W4A16(part1, w + 48, first, second, 1);
        COLIBRI_EIGHT_W4A16(part0, w + 64, first, second, 2);
        COLIBRI_EIGHT_W4A16(part1, w + 80, first, second, 2);
        COLIBRI_EIGHT_W4A16(part0, w + 96, first, second, 3);
        COLIBRI_EIGHT_W4A16(part1, w + 112, first, second, 3);
        const int16x8_t scale = vmovl_s8(vld1_s8(factor + ((unsigned)i >> shift & ~7u)));
        total0 = vmlaq_s32(total0, vsubq_s32(colibri_whole_w4a16(part0), excess), vmovl_s16(vget_low_s16(scale)));
        total1 = vmlaq_s32(total1, vsubq_s32(colibri_whole_w4a16(part1), excess), vmovl_high_s16(scale));
        w += 128;
    }
    vst1q_s32(sum, total0);
    vst1q_s32(sum + 4, total1);
}

#endif
