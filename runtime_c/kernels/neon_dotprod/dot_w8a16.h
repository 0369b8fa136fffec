/* dot_w8a16.h: 8 rows of an 8-bit matrix times 16-bit activations, exactly, with SDOT.
 *
 * A lane is a row. An activation is 256 times its upper byte plus its lower byte, both with a sign: 32639 at most, which
 * qmax is below from 519 columns on. For fewer, 128 is taken off each activation, and the weights' sum times 128 is added.
 * Packing: [k / 4][8][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 8

/* Sums of four rows: of products with the lower bytes, with the upper ones, and of weights. */
typedef struct colibri_sums_w8a16 {
    int32x4_t lower;
    int32x4_t upper;
    int32x4_t weights;
} colibri_sums_w8a16;

/* The lower bytes of 16 activations; less 128 where they are large. */
static inline int8x16_t colibri_lower_w8a16(int16x8_t first, int16x8_t second, bool large)
{
    const uint8x16_t bytes = vuzp1q_u8(vreinterpretq_u8_s16(first), vreinterpretq_u8_s16(second));
    return vreinterpretq_s8_u8(large ? veorq_u8(bytes, vdupq_n_u8(128)) : bytes);
}

/* What is left of them, divided by 256. */
static inline int8x16_t colibri_upper_w8a16(int16x8_t first, int16x8_t second, bool large)
{
    const int16x8_t half = vdupq_n_s16(large ? 0 : 128);
    return vuzp2q_s8(vreinterpretq_s8_s16(vaddq_s16(first, half)), vreinterpretq_s8_s16(vaddq_s16(second, half)));
}

/* sums plus 4 products of each of 4 rows. */
#define COLIBRI_FOUR_W8A16(sums, w, low, up, lane, large)                       \
    do {                                                                        \
        const int8x16_t weights = vld1q_s8(w);                                  \
        (sums).lower = vdotq_laneq_s32((sums).lower, weights, low, lane);       \
        (sums).upper = vdotq_laneq_s32((sums).upper, weights, up, lane);        \
        if (large) {                                                            \
            (sums).weights = vdotq_s32((sums).weights, weights, vdupq_n_s8(1)); \
        }                                                                       \
    } while (0)

static inline int32x4_t colibri_whole_w8a16(colibri_sums_w8a16 sums)
{
    return vaddq_s32(vaddq_s32(sums.lower, vshlq_n_s32(sums.upper, 8)), vshlq_n_s32(sums.weights, 7));
}

/* Inline wherever it is called, so that k is a constant. */
COLIBRI_INSIDE void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                      const int16_t *restrict x, int k)
{
    const bool large = k < 519 + 3; /* of which three may be padding */
    const int8_t *restrict tile = (const int8_t *)w;
    colibri_sums_w8a16 sums0 = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    colibri_sums_w8a16 sums1 = sums0;
    int i = 0;
    for (; i + 16 <= k; i += 16) {
        const int16x8_t first = vld1q_s16(x + i);
        const int16x8_t second = vld1q_s16(x + i + 8);
        const int8x16_t low = colibri_lower_w8a16(first, second, large);
        const int8x16_t up = colibri_upper_w8a16(first, second, large);
        COLIBRI_FOUR_W8A16(sums0, tile, low, up, 0, large);
        COLIBRI_FOUR_W8A16(sums1, tile + 16, low, up, 0, large);
        COLIBRI_FOUR_W8A16(sums0, tile + 32, low, up, 1, large);
        COLIBRI_FOUR_W8A16(sums1, tile + 48, low, up, 1, large);
        COLIBRI_FOUR_W8A16(sums0, tile + 64, low, up, 2, large);
        COLIBRI_FOUR_W8A16(sums1, tile + 80, low, up, 2, large);
        COLIBRI_FOUR_W8A16(sums0, tile + 96, low, up, 3, large);
        COLIBRI_FOUR_W8A16(sums1, tile + 112, low, up, 3, large);
        tile += 128;
    }
    for (; i < k; i += 4) {
        const int16x4_t four = vld1_s16(x + i);
        const int16x8_t twice = vcombine_s16(four, four);
        const int8x16_t low = colibri_lower_w8a16(twice, twice, large);
        const int8x16_t up = colibri_upper_w8a16(twice, twice, large);
        COLIBRI_FOUR_W8A16(sums0, tile, low, up, 0, large);
        COLIBRI_FOUR_W8A16(sums1, tile + 16, low, up, 0, large);
        tile += 32;
    }
    vst1q_s32(sum, colibri_whole_w8a16(sums0));
    vst1q_s32(sum + 4, colibri_whole_w8a16(sums1));
}

#endif
