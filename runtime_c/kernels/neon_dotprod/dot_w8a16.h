/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, NEON.
 *
 * Packing: [k / 8][4][8] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 8, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A16_ROWS 4

/* total plus a row's 8 products. */
static inline int32x4_t colibri_add_w8a16(int32x4_t total, const int8_t *w, int16x8_t values)
{
    const int16x8_t weights = vmovl_s8(vld1_s8(w));
    total = vmlal_s16(total, vget_low_s16(weights), vget_low_s16(values));
    return vmlal_high_s16(total, weights, values);
}

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    const int8_t *restrict tile = (const int8_t *)w;
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    int32x4_t total2 = vdupq_n_s32(0);
    int32x4_t total3 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 8) {
        const int16x8_t values = vld1q_s16(x + i);
        total0 = colibri_add_w8a16(total0, tile, values);
        total1 = colibri_add_w8a16(total1, tile + 8, values);
        total2 = colibri_add_w8a16(total2, tile + 16, values);
        total3 = colibri_add_w8a16(total3, tile + 24, values);
        tile += 32;
    }
    vst1q_s32(sum, vpaddq_s32(vpaddq_s32(total0, total1), vpaddq_s32(total2, total3)));
}

#endif
