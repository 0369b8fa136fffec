/* dot_w8a16.h: 8 rows of an 8-bit matrix times 16-bit activations, exactly, NEON.
 *
 * Packing: [k / 16][8][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/neon/rows.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 8

/* total plus a row's 16 products. */
static inline int32x4_t colibri_add_w8a16(int32x4_t total, const int8_t *w, int16x8_t first, int16x8_t second)
{
    const int8x16_t weights = vld1q_s8(w);
    const int16x8_t low = vmovl_s8(vget_low_s8(weights));
    const int16x8_t high = vmovl_high_s8(weights);
    total = vmlal_s16(total, vget_low_s16(low), vget_low_s16(first));
    total = vmlal_high_s16(total, low, first);
    total = vmlal_s16(total, vget_low_s16(high), vget_low_s16(second));
    return vmlal_high_s16(total, high, second);
}

COLIBRI_SHARED void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                      const int16_t *restrict x, int k)
{
    const int8_t *restrict tile = (const int8_t *)w;
    int32x4_t total0 = vdupq_n_s32(0);
    int32x4_t total1 = vdupq_n_s32(0);
    int32x4_t total2 = vdupq_n_s32(0);
    int32x4_t total3 = vdupq_n_s32(0);
    int32x4_t total4 = vdupq_n_s32(0);
    int32x4_t total5 = vdupq_n_s32(0);
    int32x4_t total6 = vdupq_n_s32(0);
    int32x4_t total7 = vdupq_n_s32(0);
    for (int i = 0; i < k; i += 16) {
        const int16x8_t first = vld1q_s16(x + i);
        const int16x8_t second = vld1q_s16(x + i + 8);
        total0 = colibri_add_w8a16(total0, tile, first, second);
        total1 = colibri_add_w8a16(total1, tile + 16, first, second);
        total2 = colibri_add_w8a16(total2, tile + 32, first, second);
        total3 = colibri_add_w8a16(total3, tile + 48, first, second);
        total4 = colibri_add_w8a16(total4, tile + 64, first, second);
        total5 = colibri_add_w8a16(total5, tile + 80, first, second);
        total6 = colibri_add_w8a16(total6, tile + 96, first, second);
        total7 = colibri_add_w8a16(total7, tile + 112, first, second);
        tile += 128;
    }
    vst1q_s32(sum, colibri_four_rows(total0, total1, total2, total3));
    vst1q_s32(sum + 4, colibri_four_rows(total4, total5, total6, total7));
}

#endif
