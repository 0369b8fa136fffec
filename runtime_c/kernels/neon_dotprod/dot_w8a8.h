/* dot_w8a8.h: 4 rows of an 8-bit matrix times 8-bit activations, exactly, with SDOT.
 *
 * Packing: [k / 16][4][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero
 * padded. |w|, |x| <= 127 and 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 4

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    const int8_t *restrict tile = (const int8_t *)w;
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    int32x4_t total2 = vdupq_n_s32(0);
    int32x4_t total3 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 16) {
        const int8x16_t values = vld1q_s8(x + i);
        total0 = vdotq_s32(total0, vld1q_s8(tile), values);
        total1 = vdotq_s32(total1, vld1q_s8(tile + 16), values);
        total2 = vdotq_s32(total2, vld1q_s8(tile + 32), values);
        total3 = vdotq_s32(total3, vld1q_s8(tile + 48), values);
        tile += 64;
    }
    vst1q_s32(sum, vpaddq_s32(vpaddq_s32(total0, total1), vpaddq_s32(total2, total3)));
}

#endif
