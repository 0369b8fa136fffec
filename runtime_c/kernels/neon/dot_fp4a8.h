/* dot_fp4a8.h: 4 rows of a matrix of 4-bit floats times 8-bit activations, exactly, NEON.
 *
 * A table instruction looks up twice each float. Sums of 16 products are below 16 * 12 * 127 < 2^15.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A8_H
#define COLIBRI_DOT_FP4A8_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/neon/wide.h"
#include "kernels/portable/e2m1.h"

#define COLIBRI_DOT_FP4A8_ROWS 4

/* A row's group of 32 products, in 8 sums. */
static inline int16x8_t colibri_part_fp4a8(const uint8_t *w, int8x16_t twice, int8x16_t first, int8x16_t second)
{
    const uint8x16_t bytes = vld1q_u8(w);
    const int8x16_t low = vqtbl1q_s8(twice, vandq_u8(bytes, vdupq_n_u8(15)));
    const int8x16_t high = vqtbl1q_s8(twice, vshrq_n_u8(bytes, 4));
    int16x8_t part = vmull_s8(vget_low_s8(low), vget_low_s8(first));
    part = vmlal_high_s8(part, low, first);
    part = vmlal_s8(part, vget_low_s8(high), vget_low_s8(second));
    return vmlal_high_s8(part, high, second);
}

static inline void colibri_dot_fp4a8(int64_t sum[COLIBRI_DOT_FP4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict group_scale, const int8_t *restrict x, int k)
{
    const int8x16_t twice = vld1q_s8(colibri_e2m1);
    colibri_wide total = {vdupq_n_s64(0), vdupq_n_s64(0)};
    for (int i = 0; i < k; i += 32) {
        const int8x16_t first = vld1q_s8(x + i);
        const int8x16_t second = vld1q_s8(x + i + 16);
        const int16x8_t rows01 =
            vpaddq_s16(colibri_part_fp4a8(w, twice, first, second), colibri_part_fp4a8(w + 16, twice, first, second));
        const int16x8_t rows23 = vpaddq_s16(colibri_part_fp4a8(w + 32, twice, first, second),
                                            colibri_part_fp4a8(w + 48, twice, first, second));
        total = colibri_add_wide(total, vpaddlq_s16(vpaddq_s16(rows01, rows23)), group_scale);
        group_scale += COLIBRI_DOT_FP4A8_ROWS;
        w += 64;
    }
    colibri_store_four_wide(sum, total);
}

#endif
