/* pairs_dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, by multiplications of 32 bits.
 *
 * One multiplication does two columns c and d: (q_c + 2^16 q_d) (x_d + 2^16 x_c) modulo 2^32 has in its upper half
 * q_c x_c + q_d x_d, above q_c x_d. In a group of 32 columns either half sums up to at most 32 * 8 * 127 < 2^15 once 8
 * is taken off each q, so that both can be told apart then. The pairs of x are made once for all rows.
 * Packing: [k / 32][4][16] bytes, 4-byte aligned; byte c of a group holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and
 * |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 * Before it stands colibri_group_w4a8(part, w, pairs, start), of the processor: of each row start plus the products of a
 * group's 16 pairs with q, modulo 2^32. The pairs of columns come in the order in which nibbles of a row's words are met,
 * (0, 2), (16, 18), (1, 3), (17, 19), (4, 6), ...
 */
#ifndef COLIBRI_PAIRS_DOT_W4A8_H
#define COLIBRI_PAIRS_DOT_W4A8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4
#define COLIBRI_GROUPS_W4A8 4 /* whose pairs are on the stack at once */
#define COLIBRI_STORED_W4A8 32 /* rows whose sums are, too */

typedef int32_t __attribute__((may_alias)) colibri_sum_w4a8; /* in place of the float that it becomes */

/* The pairs of groups, and what the sums of a row start with: 8 taken off each q, and half of what the lower half holds. */
COLIBRI_INSIDE void colibri_pairs_w4a8(uint32_t *restrict pair, uint32_t *restrict starts, const int8_t *restrict x,
                                       int groups)
{
    for (int group = 0; group < groups; group++) {
        uint32_t values = 0;
        for (int step = 0; step < 4; step++) {
            for (int nibble = 0; nibble < 4; nibble++) {
                const int8_t *const c = x + 4 * step + 16 * (nibble & 1) + (nibble >> 1);
                *pair = (uint32_t)c[2] + ((uint32_t)c[0] << 16);
                values += *pair++;
            }
        }
        starts[group] = 0x8000 - values * 0x00080008;
        x += 32;
    }
}

/* Sums of n rows over some groups, assigned, or added to those of others; apart: how many groups a row has beside. */
COLIBRI_ASSEMBLY void colibri_rows_w4a8(colibri_sum_w4a8 *restrict sums, const uint8_t *restrict w,
                                        const uint8_t *restrict factors, const uint32_t *restrict pairs,
                                        const uint32_t *restrict starts, int groups, int apart, int n, bool more)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    for (colibri_sum_w4a8 *const end = sums + n; sums != end; sums += COLIBRI_DOT_W4A8_ROWS) {
        int32_t total0 = more ? sums[0] : 0;
        int32_t total1 = more ? sums[1] : 0;
        int32_t total2 = more ? sums[2] : 0;
        int32_t total3 = more ? sums[3] : 0;
        for (int group = 0; group < groups; group++) {
            uint32_t part[COLIBRI_DOT_W4A8_ROWS];
            colibri_group_w4a8(part, w, pairs + 16 * group, starts[group]);
            total0 += ((int32_t)part[0] >> 16) * factor[0];
            total1 += ((int32_t)part[1] >> 16) * factor[1];
            total2 += ((int32_t)part[2] >> 16) * factor[2];
            total3 += ((int32_t)part[3] >> 16) * factor[3];
            w += 64;
            factor += COLIBRI_DOT_W4A8_ROWS;
        }
        sums[0] = total0;
        sums[1] = total1;
        sums[2] = total2;
        sums[3] = total3;
        w += 64 * apart;
        factor += COLIBRI_DOT_W4A8_ROWS * apart;
    }
}

COLIBRI_SHARED void colibri_sums_w4a8(colibri_sum_w4a8 *restrict sums, const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int8_t *restrict x, int k, int n)
{
    for (int from = 0; from < k; from += 32 * COLIBRI_GROUPS_W4A8) {
        uint32_t pairs[16 * COLIBRI_GROUPS_W4A8];
        uint32_t starts[COLIBRI_GROUPS_W4A8];
        const int left = (k - from) / 32;
        const int groups = left < COLIBRI_GROUPS_W4A8 ? left : COLIBRI_GROUPS_W4A8;
        colibri_pairs_w4a8(pairs, starts, x + from, groups);
        colibri_rows_w4a8(sums, w + 2 * from, factors + from / 8, pairs, starts, groups, k / 32 - groups, n, from != 0);
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
        for (int i = 0; i < count; i++) {
            sum[i] = sums[row + i];
        }
        colibri_store_grouped(y + row, sum, row_scale + row, NULL, *x_scale, count);
    }
}

#endif
