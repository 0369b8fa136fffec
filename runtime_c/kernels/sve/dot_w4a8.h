/* dot_w4a8.h: 16 rows of a 4-bit matrix times 8-bit activations, exactly, SVE with vectors of any length.
 *
 * A lane is a row: four of its columns meet the same four activations in each row. One, two or four vectors have
 * lanes for all rows. Nibbles are used as they lie, 0 to 15, and the sums start at -8 times the activations:
 * (q - 8) x = q x - 8 x.
 * Packing, of the order "lanes": [k / 32][4][16][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [groups][16],
 * of group columns each (32, 64 or 128). x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of
 * the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <arm_sve.h>
#include <stdint.h>
#include "kernels/portable/shared.h"
#include "kernels/sve/nibbles.h"

#define COLIBRI_DOT_W4A8_ROWS 16

/* part plus 8 products of each row in a vector: a lane of first, and of second, has the activations. */
#define COLIBRI_EIGHT_W4A8(part, there, w, lane)                                              \
    do {                                                                                      \
        const svuint8_t bytes = svld1_u8(there, w);                                           \
        const svint8_t low = svreinterpret_s8_u8(svand_u8_x(svptrue_b8(), bytes, mask));      \
        const svint8_t high = svreinterpret_s8_u8(svlsr_n_u8_x(svptrue_b8(), bytes, 4));      \
        part = svdot_lane_s32(svdot_lane_s32(part, low, first, lane), high, second, lane);    \
    } while (0)

/* total plus 32 products of each row in a vector, of a number, times their factors. */
#define COLIBRI_GROUP_W4A8(total, there, number)                                              \
    do {                                                                                      \
        const uint8_t *const rows = w + (number) * svcntb();                                  \
        svint32_t part = start;                                                               \
        COLIBRI_EIGHT_W4A8(part, there, rows, 0);                                             \
        COLIBRI_EIGHT_W4A8(part, there, rows + 64, 1);                                        \
        COLIBRI_EIGHT_W4A8(part, there, rows + 128, 2);                                       \
        COLIBRI_EIGHT_W4A8(part, there, rows + 192, 3);                                       \
        const svint32_t scale = svld1sb_vnum_s32(there, factors, number);                     \
        total = svmla_s32_x(svptrue_b32(), total, part, scale);                               \
    } while (0)

COLIBRI_INSIDE void colibri_vectors_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                         const int8_t *restrict factor, const int8_t *restrict x, int k, int group,
                                         int vectors)
{
    /* Of a lane its first byte counts. */
    const int each = (int)svcntb();
    const svbool_t there0 = svwhilelt_b8_s32(0, 64);
    const svbool_t there1 = svwhilelt_b8_s32(each, 64);
    const svbool_t there2 = svwhilelt_b8_s32(2 * each, 64);
    const svbool_t there3 = svwhilelt_b8_s32(3 * each, 64);
    const svuint8_t mask = colibri_fifteens();
    const svint8_t minus_eight = svdup_n_s8(-8);
    const int shift = group == 32 ? 1 : group == 64 ? 2 : 3; /* of a column's number to its group's factors */
    svint32_t total0 = svdup_n_s32(0);
    svint32_t total1 = total0;
    svint32_t total2 = total0;
    svint32_t total3 = total0;
    for (int i = 0; i < k; i += 32) {
        const svint8_t first = svld1rq_s8(svptrue_b8(), x + i);
        const svint8_t second = svld1rq_s8(svptrue_b8(), x + i + 16);
        const svint32_t excess = svdot_s32(svdot_s32(svdup_n_s32(0), minus_eight, first), minus_eight, second);
        const svint32_t start = svdup_n_s32((int32_t)svaddv_s32(svptrue_pat_b32(SV_VL4), excess));
        const int8_t *const factors = factor + ((unsigned)i >> shift & ~15u);
        COLIBRI_GROUP_W4A8(total0, there0, 0);
        if (vectors > 1) {
            COLIBRI_GROUP_W4A8(total1, there1, 1);
        }
        if (vectors > 2) {
            COLIBRI_GROUP_W4A8(total2, there2, 2);
            COLIBRI_GROUP_W4A8(total3, there3, 3);
        }
        w += 256;
    }
    svst1_s32(there0, sum, total0);
    if (vectors > 1) {
        svst1_vnum_s32(there1, sum, 1, total1);
    }
    if (vectors > 2) {
        svst1_vnum_s32(there2, sum, 2, total2);
        svst1_vnum_s32(there3, sum, 3, total3);
    }
}

COLIBRI_SHARED void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k, int group)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    switch (colibri_vectors()) {
    case 1:
        colibri_vectors_w4a8(sum, w, factor, x, k, group, 1);
        break;
    case 2:
        colibri_vectors_w4a8(sum, w, factor, x, k, group, 2);
        break;
    default:
        colibri_vectors_w4a8(sum, w, factor, x, k, group, 4);
        break;
    }
}

#endif
