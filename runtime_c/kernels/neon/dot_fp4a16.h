/* dot_fp4a16.h: 4 rows of a matrix of 4-bit floats times 16-bit activations, exactly, NEON.
 *
 * A table instruction looks up twice each float. A group's sum is below 2^24.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A16_H
#define COLIBRI_DOT_FP4A16_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/neon/wide.h"
#include "kernels/portable/e2m1.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_FP4A16_ROWS 4

/* A row's group of 32 products, in 4 sums. */
COLIBRI_INSIDE int32x4_t colibri_part_fp4a16(const uint8_t *w, int8x16_t twice, const int16x8_t values[4])
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vqtbl1q_s8(twice, vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vqtbl1q_s8(twice, vshrq_n_u8(bytes, 4));
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
    return vmlal_high_s16(part, high1, values[3]);
}

/* Never inline: left alone, gcc copies these 400 bytes into some callers and not into others, and nobody could foretell
 * the code's size.
 */
static void colibri_dot_fp4a16(int64_t sum[COLIBRI_DOT_FP4A16_ROWS], const uint8_t *restrict w,
                               const uint8_t *restrict group_scale, const int16_t *restrict x, int k)
    __attribute__((noinline));

static void colibri_dot_fp4a16(int64_t sum[COLIBRI_DOT_FP4A16_ROWS], const uint8_t *restrict w,
                               const uint8_t *restrict group_scale, const int16_t *restrict x, int k)
{
    const int8x16_t twice = vld1q_s8(colibri_e2m1);
    colibri_wide total = {vdupq_n_s64(0), vdupq_n_s64(0)};
    for (int i = 0; i < k; i += 32) {
        const int16x8_t values[4] = {vld1q_s16(x + i), vld1q_s16(x + i + 8), vld1q_s16(x + i + 16),
                                     vld1q_s16(x + i + 24)};
        const int32x4_t rows01 =
            vpaddq_s32(colibri_part_fp4a16(w, twice, values), colibri_part_fp4a16(w + 16, twice, values));
        const int32x4_t rows23 =
            vpaddq_s32(colibri_part_fp4a16(w + 32, twice, values), colibri_part_fp4a16(w + 48, twice, values));
        total = colibri_add_wide(total, vpaddq_s32(rows01, rows23), group_scale);
        group_scale += COLIBRI_DOT_FP4A16_ROWS;
        w += 64;
    }
    colibri_store_four_wide(sum, total);
}

#endif
