/* pairs_dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, by multiplications of 32 bits.
 *
 * One multiplication does two columns c and d: (q_c + 2^16 q_d) (x_d + 2^16 x_c) modulo 2^32 has in its upper half
 * q_c x_c + q_d x_d, above q_c x_d. In a group of 32 columns either half sums up to at most 32 * 8 * 127 < 2^15 once 8
 * is taken off each q, so that both can be told apart then. The pairs of x are made once for all rows of a group.
 * Packing: [k / 32][4][16] bytes, 4-byte aligned; byte c of a group holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: int8 [k / 32][4], 4-byte aligned. x: k values, k a multiple of 32, zero padded.
 * |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 * Behind it stands colibri_rows_w4a8, of the processor.
 */
#ifndef COLIBRI_PAIRS_DOT_W4A8_H
#define COLIBRI_PAIRS_DOT_W4A8_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4
#define COLIBRI_STORED_W4A8 32 /* rows whose sums are on the stack at once */

typedef int32_t __attribute__((may_alias)) colibri_sum_w4a8; /* in place of the float that it becomes */

/* A group of 32 columns in all rows, as the assembler reads it. The pairs come in the order in which nibbles of a row's
 * words are met, (0, 2), (16, 18), (1, 3), (17, 19), (4, 6), ... */
typedef struct colibri_group_w4a8 {
    colibri_sum_w4a8 *sums;
    const uint8_t *factors;
    const uint8_t *w;
    const colibri_sum_w4a8 *end; /* of the sums */
    uint32_t start;              /* of a row's products: 8 taken off each q, and half of what the lower half holds */
    uint32_t apart;              /* bytes from 4 rows to the next ones */
    uint32_t factors_apart;
    uint32_t nibbles; /* the lowest of each half */
    uint32_t pairs[16];
} colibri_group_w4a8;

/* Adds to each row's sum its factor times the upper half of start plus the products of pairs with q, modulo 2^32. */
COLIBRI_ASSEMBLY void colibri_rows_w4a8(const colibri_group_w4a8 *group);

COLIBRI_INSIDE uint32_t colibri_pair_w4a8(const int8_t *restrict x)
{
    return (uint32_t)x[2] + ((uint32_t)x[0] << 16);
}

/* The group's pairs and start. */
COLIBRI_INSIDE void colibri_pairs_w4a8(colibri_group_w4a8 *restrict group, const int8_t *restrict x)
{
    uint32_t values = 0;
    for (uint32_t *restrict pair = group->pairs; pair != group->pairs + 16; pair += 4) {
        pair[0] = colibri_pair_w4a8(x);
        pair[1] = colibri_pair_w4a8(x + 16);
        pair[2] = colibri_pair_w4a8(x + 1);
        pair[3] = colibri_pair_w4a8(x + 17);
        values += pair[0] + pair[1] + pair[2] + pair[3];
        x += 4;
    }
    group->start = 0x8000 - values * 0x00080008;
}

COLIBRI_SHARED void colibri_sums_w4a8(colibri_sum_w4a8 *restrict sums, const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int8_t *restrict x, int k, int n)
{
    volatile colibri_sum_w4a8 *const cleared = sums; /* or it would become a call of memset */
    for (int row = 0; row < n; row += COLIBRI_DOT_W4A8_ROWS) {
        cleared[row] = 0;
        cleared[row + 1] = 0;
        cleared[row + 2] = 0;
        cleared[row + 3] = 0;
    }
    colibri_group_w4a8 group;
    group.sums = sums;
    group.factors = factors;
    group.w = w;
    group.end = sums + n;
    group.apart = (uint32_t)k * 2;
    group.factors_apart = (uint32_t)k / 8;
    group.nibbles = 0x000F000F;
    for (const int8_t *const end = x + k; x != end; x += 32) {
        colibri_pairs_w4a8(&group, x);
        colibri_rows_w4a8(&group);
        group.factors += COLIBRI_DOT_W4A8_ROWS;
        group.w += 64;
    }
}

static inline void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                    const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    colibri_sums_w4a8(sum, w, factors, x, k, COLIBRI_DOT_W4A8_ROWS);
}

/* y = ((float)sum * row_scale) * x_scale of n rows, a multiple of 4; row_scale: upper 16 bits of fp32. */
COLIBRI_SHARED void colibri_linear_w4a8(float *restrict y, const uint8_t *restrict w, const uint8_t *restrict factors,
                                        const uint16_t *restrict row_scale, const int8_t *restrict x,
                                        const float *restrict x_scale, int k, int n)
{
    colibri_sum_w4a8 *const sums = (void *)y;
    colibri_sums_w4a8(sums, w, factors, x, k, n);
    for (int row = 0; row < n; row += COLIBRI_STORED_W4A8) {
        int32_t sum[COLIBRI_STORED_W4A8];
        const int count = n - row < COLIBRI_STORED_W4A8 ? n - row : COLIBRI_STORED_W4A8;
        for (int i = 0; i < count; i += COLIBRI_DOT_W4A8_ROWS) {
            sum[i] = sums[row + i];
            sum[i + 1] = sums[row + i + 1];
            sum[i + 2] = sums[row + i + 2];
            sum[i + 3] = sums[row + i + 3];
        }
        colibri_store_grouped(y + row, sum, row_scale + row, NULL, *x_scale, count);
    }
}

#endif
