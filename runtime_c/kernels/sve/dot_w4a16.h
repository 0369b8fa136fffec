/* dot_w4a16.h: 16 rows of a 4-bit matrix times 16-bit activations, exactly, SVE with vectors of any length.
 *
 * A lane is a row. An activation is 256 times its upper byte, which has the sign, plus its lower byte, which has none;
 * nibbles are used as they lie, 0 to 15, so that SDOT and UDOT may read them. 8 times the activations is taken off.
 * Packing, of the order "lanes": [k / 32][4][16][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [groups][16],
 * of group columns each (32, 64 or 128). x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of
 * the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <arm_neon.h>
#include <arm_sve.h>
#include <stdint.h>
#include "kernels/portable/shared.h"
#include "kernels/sve/nibbles.h"

#define COLIBRI_DOT_W4A16_ROWS 16

/* 8 times the sum of 32 activations. */
static inline int32_t colibri_excess_w4a16(const int16_t *x)
{
    const int32x4_t half = vpadalq_s16(vpaddlq_s16(vld1q_s16(x)), vld1q_s16(x + 8));
    return 8 * vaddvq_s32(vpadalq_s16(vpadalq_s16(half, vld1q_s16(x + 16)), vld1q_s16(x + 24)));
}

/* lower and upper plus 8 products of each row in a vector: a lane of first, and of second, has the activations. */
#define COLIBRI_EIGHT_W4A16(lower, upper, w, first, second, lane)                                               \
    do {                                                                                                        \
        const svuint8_t bytes = svld1_u8(there, w);                                                             \
        const svuint8_t low = svand_u8_x(svptrue_b8(), bytes, mask);                                            \
        const svuint8_t high = svlsr_n_u8_x(svptrue_b8(), bytes, 4);                                            \
        lower = svdot_lane_u32(lower, low, svuzp1_u8(first, first), lane);                                      \
        lower = svdot_lane_u32(lower, high, svuzp1_u8(second, second), lane);                                   \
        upper = svdot_lane_s32(upper, svreinterpret_s8_u8(low), COLIBRI_UPPER_W4A16(first), lane);              \
        upper = svdot_lane_s32(upper, svreinterpret_s8_u8(high), COLIBRI_UPPER_W4A16(second), lane);            \
    } while (0)
#define COLIBRI_UPPER_W4A16(values) svreinterpret_s8_u8(svuzp2_u8(values, values))

/* A vector of rows: the sums of 32 columns. */
COLIBRI_INSIDE svint32_t colibri_part_w4a16(svbool_t there, const uint8_t *restrict w, const int16_t *restrict x,
                                            svuint8_t mask)
{
    svuint32_t lower = svdup_n_u32(0);
    svint32_t upper = svdup_n_s32(0);
    /* Each 8 activations follow themselves. */
    const svuint8_t values0 = svreinterpret_u8_s16(svld1rq_s16(svptrue_b16(), x));
    const svuint8_t values1 = svreinterpret_u8_s16(svld1rq_s16(svptrue_b16(), x + 8));
    const svuint8_t values2 = svreinterpret_u8_s16(svld1rq_s16(svptrue_b16(), x + 16));
    const svuint8_t values3 = svreinterpret_u8_s16(svld1rq_s16(svptrue_b16(), x + 24));
    COLIBRI_EIGHT_W4A16(lower, upper, w, values0, values2, 0);
    COLIBRI_EIGHT_W4A16(lower, upper, w + 64, values0, values2, 1);
    COLIBRI_EIGHT_W4A16(lower, upper, w + 128, values1, values3, 0);
    COLIBRI_EIGHT_W4A16(lower, upper, w + 192, values1, values3, 1);
    return svadd_s32_x(svptrue_b32(), svreinterpret_s32_u32(lower), svlsl_n_s32_x(svptrue_b32(), upper, 8));
}

COLIBRI_SHARED void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int16_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const int shift = group == 32 ? 1 : group == 64 ? 2 : 3; /* of a column's number to its group's factors */
    const int lanes = (int)svcntw();
    const svuint8_t mask = colibri_fifteens();
    for (int row = 0; row < COLIBRI_DOT_W4A16_ROWS; row += 2 * lanes) {
        const svbool_t bytes0 = svwhilelt_b8_s32(4 * row, 64);
        const svbool_t bytes1 = svwhilelt_b8_s32(4 * (row + lanes), 64);
        const svbool_t lanes0 = svwhilelt_b32_s32(row, 16);
        const svbool_t lanes1 = svwhilelt_b32_s32(row + lanes, 16);
        const uint8_t *restrict tile = w + 4 * row;
        svint32_t total0 = svdup_n_s32(0);
        svint32_t total1 = svdup_n_s32(0);
        for (int i = 0; i < k; i += 32) {
            const int8_t *const own = factor + row + ((unsigned)i >> shift & ~15u);
            const svint32_t excess = svdup_n_s32(colibri_excess_w4a16(x + i));
            svint32_t part = svsub_s32_x(svptrue_b32(), colibri_part_w4a16(bytes0, tile, x + i, mask), excess);
            total0 = svmla_s32_x(svptrue_b32(), total0, part, svld1sb_s32(lanes0, own));
            part = svsub_s32_x(svptrue_b32(), colibri_part_w4a16(bytes1, tile + 4 * lanes, x + i, mask), excess);
            total1 = svmla_s32_x(svptrue_b32(), total1, part, svld1sb_s32(lanes1, own + lanes));
            tile += 256;
        }
        svst1_s32(lanes0, sum + row, total0);
        svst1_s32(lanes1, sum + row + lanes, total1);
    }
}

#endif
