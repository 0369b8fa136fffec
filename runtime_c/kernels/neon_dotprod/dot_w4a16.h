/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, NEON.
 *
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W4A16_ROWS 4

/* total plus a row's group of 32 products. */
__attribute__((always_inline)) static inline int32x4_t colibri_add_w4a16(int32x4_t total, const uint8_t *w,
                                                                         int32_t scale, const int16x8_t values[4])
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))), vdupq_n_s8(8));
    const int8x16_t high = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4)), vdupq_n_s8(8));
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
    part = vmlal_high_s16(part, high1, values[3]);
    return vmlaq_n_s32(total, part, scale);
}

/* Never inline: left alone, gcc copies these 400 bytes into some callers and not into others, and nobody could foretell
 * the code's size.
 */
static void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                              const uint8_t *restrict factors, const int16_t *restrict x, int k)
    __attribute__((noinline));

static void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                              const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    int32x4_t total2 = vdupq_n_s32(0);
    int32x4_t total3 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 32) {
        const int16x8_t values[4] = {vld1q_s16(x + i), vld1q_s16(x + i + 8), vld1q_s16(x + i + 16),
                                     vld1q_s16(x + i + 24)};
        total0 = colibri_add_w4a16(total0, w, factor[0], values);
        total1 = colibri_add_w4a16(total1, w + 16, factor[1], values);
        total2 = colibri_add_w4a16(total2, w + 32, factor[2], values);
        total3 = colibri_add_w4a16(total3, w + 48, factor[3], values);
        factor += COLIBRI_DOT_W4A16_ROWS;
        w += 64;
    }
    vst1q_s32(sum, vpaddq_s32(vpaddq_s32(total0, total1), vpaddq_s32(total2, total3)));
}

#endif
