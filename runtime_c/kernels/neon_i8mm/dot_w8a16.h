/* dot_w8a16.h: 8 rows of an 8-bit matrix times 16-bit activations, exactly, with SDOT and SUDOT.
 *
 * A lane is a row. An activation is 256 times its upper byte, which has the sign, plus its lower byte, which has none.
 * Packing: [k / 4][8][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A16_ROWS 8

/* Sums of products of four rows with the lower and the upper bytes. */
typedef struct colibri_sums_w8a16 {
    int32x4_t lower;
    int32x4_t upper;
} colibri_sums_w8a16;

/* sums plus 4 products of each of 4 rows. */
#define COLIBRI_FOUR_W8A16(sums, w, low, up, lane)                                               \
    do {                                                                                         \
        const int8x16_t weights = vld1q_s8(w);                                                   \
        (sums).lower = vsudotq_laneq_s32((sums).lower, weights, low, lane);                      \
        (sums).upper = vdotq_laneq_s32((sums).upper, weights, up, lane);                         \
    } while (0)

static inline int32x4_t colibri_whole_w8a16(colibri_sums_w8a16 sums)
{
    return vaddq_s32(sums.lower, vshlq_n_s32(sums.upper, 8));
}

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    const int8_t *restrict tile = (const int8_t *)w;
    colibri_sums_w8a16 sums0 = {vdupq_n_s32(0), vdupq_n_s32(0)};
    colibri_sums_w8a16 sums1 = sums0;
    int i = 0;
    for (; i + 16 <= k; i += 16) {
        const int8x16_t first = vreinterpretq_s8_s16(vld1q_s16(x + i));
        const int8x16_t second = vreinterpretq_s8_s16(vld1q_s16(x + i + 8));
        const uint8x16_t low = vreinterpretq_u8_s8(vuzp1q_s8(first, second));
        const int8x16_t up = vuzp2q_s8(first, second);
        COLIBRI_FOUR_W8A16(sums0, tile, low, up, 0);
        COLIBRI_FOUR_W8A16(sums1, tile + 16, low, up, 0);
        COLIBRI_FOUR_W8A16(sums0, tile + 32, low, up, 1);
        COLIBRI_FOUR_W8A16(sums1, tile + 48, low, up, 1);
        COLIBRI_FOUR_W8A16(sums0, tile + 64, low, up, 2);
        COLIBRI_FOUR_W8A16(sums1, tile + 80, low, up, 2);
        COLIBRI_FOUR_W8A16(sums0, tile + 96, low, up, 3);
        COLIBRI_FOUR_W8A16(sums1, tile + 112, low, up, 3);
        tile += 128;
    }
    for (; i < k; i += 4) {
        const int16x4_t four = vld1_s16(x + i);
        const int8x16_t twice = vreinterpretq_s8_s16(vcombine_s16(four, four));
        const uint8x16_t low = vreinterpretq_u8_s8(vuzp1q_s8(twice, twice));
        const int8x16_t up = vuzp2q_s8(twice, twice);
        COLIBRI_FOUR_W8A16(sums0, tile, low, up, 0);
        COLIBRI_FOUR_W8A16(sums1, tile + 16, low, up, 0);
        tile += 32;
    }
    vst1q_s32(sum, colibri_whole_w8a16(sums0));
    vst1q_s32(sum + 4, colibri_whole_w8a16(sums1));
}

#endif
