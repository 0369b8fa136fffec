/* dot_w8a16.h: 16 rows of an 8-bit matrix times 16-bit activations, exactly, SVE with vectors of any length.
 *
 * A lane is a row; two vectors at a time. An activation is 256 times its upper byte plus its lower byte, both with a sign:
 * 32639 at most, which qmax is below from 519 columns on. For fewer, 128 is taken off each activation, and the weights' sum
 * times 128 is added.
 * Packing: [k / 4][16][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <arm_sve.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 16

/* Of 8 or 4 activations, over and over, the lower bytes; less 128 where they are large. */
static inline svint8_t colibri_lower_w8a16(svint16_t values, bool large)
{
    const svuint8_t bytes = svreinterpret_u8_s16(values);
    const svuint8_t lower = svuzp1_u8(bytes, bytes);
    return svreinterpret_s8_u8(large ? sveor_n_u8_x(svptrue_b8(), lower, 128) : lower);
}

/* What is left of them, divided by 256. */
static inline svint8_t colibri_upper_w8a16(svint16_t values, bool large)
{
    const svint8_t bytes = svreinterpret_s8_s16(large ? values : svadd_n_s16_x(svptrue_b16(), values, 128));
    return svuzp2_s8(bytes, bytes);
}

/* Sums plus 4 products of each row in a vector. */
#define COLIBRI_FOUR_W8A16(number, w, low, up, lane)                                        \
    do {                                                                                    \
        const svint8_t rows = svld1_s8(bytes##number, w);                                   \
        lower##number = svdot_lane_s32(lower##number, rows, low, lane);                     \
        upper##number = svdot_lane_s32(upper##number, rows, up, lane);                      \
        if (large) {                                                                        \
            weights##number = svdot_s32(weights##number, rows, svdup_n_s8(1));              \
        }                                                                                   \
    } while (0)

static inline svint32_t colibri_whole_w8a16(svint32_t lower, svint32_t upper, svint32_t weights)
{
    const svbool_t all = svptrue_b32();
    return svadd_s32_x(all, lower, svadd_s32_x(all, svlsl_n_s32_x(all, upper, 8), svlsl_n_s32_x(all, weights, 7)));
}

/* Inline wherever it is called, so that k is a constant. */
COLIBRI_INSIDE void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                      const int16_t *restrict x, int k)
{
    const bool large = k < 519 + 3; /* of which three may be padding */
    const int lanes = (int)svcntw();
    for (int row = 0; row < COLIBRI_DOT_W8A16_ROWS; row += 2 * lanes) {
        const svbool_t bytes0 = svwhilelt_b8_s32(4 * row, 64);
        const svbool_t bytes1 = svwhilelt_b8_s32(4 * (row + lanes), 64);
        const int8_t *restrict tile = (const int8_t *)w + 4 * row;
        svint32_t lower0 = svdup_n_s32(0);
        svint32_t upper0 = lower0;
        svint32_t weights0 = lower0;
        svint32_t lower1 = lower0;
        svint32_t upper1 = lower0;
        svint32_t weights1 = lower0;
        int i = 0;
        for (; i + 8 <= k; i += 8) {
            const svint16_t values = svld1rq_s16(svptrue_b16(), x + i);
            const svint8_t low = colibri_lower_w8a16(values, large);
            const svint8_t up = colibri_upper_w8a16(values, large);
            COLIBRI_FOUR_W8A16(0, tile, low, up, 0);
            COLIBRI_FOUR_W8A16(1, tile + svcntb(), low, up, 0);
            COLIBRI_FOUR_W8A16(0, tile + 64, low, up, 1);
            COLIBRI_FOUR_W8A16(1, tile + 64 + svcntb(), low, up, 1);
            tile += 128;
        }
        if (i < k) {
            int64_t four;
            __builtin_memcpy(&four, x + i, sizeof four);
            const svint16_t values = svreinterpret_s16_s64(svdup_n_s64(four));
            const svint8_t low = colibri_lower_w8a16(values, large);
            const svint8_t up = colibri_upper_w8a16(values, large);
            COLIBRI_FOUR_W8A16(0, tile, low, up, 0);
            COLIBRI_FOUR_W8A16(1, tile + svcntb(), low, up, 0);
        }
        svst1_s32(svwhilelt_b32_s32(row, 16), sum + row, colibri_whole_w8a16(lower0, upper0, weights0));
        svst1_s32(svwhilelt_b32_s32(row + lanes, 16), sum + row + lanes,
                  colibri_whole_w8a16(lower1, upper1, weights1));
    }
}

#endif
