/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, with SDOT.
 *
 * Nibbles are used as they lie, 0 to 15, and the sums start at -8 times the activations: (q - 8) x = q x - 8 x.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W4A8_ROWS 4

/* total plus a row's group of 32 products; start: -8 times the activations. */
static inline int32x4_t colibri_add_w4a8(int32x4_t total, const uint8_t *w, int32_t scale, int32x4_t start,
                                         int8x16_t first, int8x16_t second)
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
    return vmlaq_n_s32(total, vdotq_s32(vdotq_s32(start, low, first), high, second), scale);
}

static inline void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                    const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int8x16_t minus_eight = vdupq_n_s8(-8);
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    int32x4_t total2 = vdupq_n_s32(0);
    int32x4_t total3 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int8x16_t first = vld1q_s8(x + i);
        const int8x16_t second = vld1q_s8(x + i + 16);
        const int32x4_t start = vdotq_s32(vdotq_s32(vdupq_n_s32(0), minus_eight, first), minus_eight, second);
        total0 = colibri_add_w4a8(total0, w, factor[0], start, first, second);
        total1 = colibri_add_w4a8(total1, w + 16, factor[1], start, first, second);
        total2 = colibri_add_w4a8(total2, w + 32, factor[2], start, first, second);
        total3 = colibri_add_w4a8(total3, w + 48, factor[3], start, first, second);
        factor += COLIBRI_DOT_W4A8_ROWS;
        w += 64;
    }
    vst1q_s32(sum, vpaddq_s32(vpaddq_s32(total0, total1), vpaddq_s32(total2, total3)));
}

#endif
