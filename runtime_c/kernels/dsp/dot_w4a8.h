/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, with SMLAD.
 *
 * As dot_w4a16.h, but a group's sum of 32 columns has 16 bits, since 32 * 8 * 127 < 2^15: halves of registers are
 * multiplied with its factor, and the 8s are taken off by where sums start.
 * 32 columns of 4 rows take 126 instructions, and about 25 that combine them.
 * Packing: [k / 2] words, 8-byte aligned; a word has two columns. factors: int8 [k / 32][4], 4-byte
 * aligned. x: k values in 16 bits each, 8-byte aligned, k a multiple of 32, zero padded. sums: of every 32 activations,
 * times -8. |w| <= 8 * 127, |x| <= 127 and 8 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/dsp/group_sums.h"
#include "kernels/dsp/store_grouped.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4

/* Two columns: all four rows, c + 16 d, c, and a. What is added to c + 16 d and to c is named: first it is what a starts
 * with. */
#define COLIBRI_W4A8_ADD(w, x, cd, c)        \
    "smlad %[all], " w ", " x ", %[all]\n\t" \
    "sxtb16 %[t], " w ", ror #8\n\t"         \
    "smlad %[cd], %[t], " x ", " cd "\n\t"   \
    "and %[t], %[t], #0x000F000F\n\t"        \
    "smlad %[c], %[t], " x ", " c "\n\t"     \
    "and " w ", " w ", #0x000F000F\n\t"      \
    "smlad %[a], " w ", " x ", %[a]\n\t"
/* Eight columns; first: what adds the first two. */
#define COLIBRI_W4A8_EIGHT(first)                                                  \
    "ldrd %[x0], %[x1], [%[x]], #8\n\t"                                            \
    "ldmia %[w]!, {r4, r5, r6, r8}\n\t"                                            \
    first COLIBRI_W4A8_NEXT("r5", "%[x1]")                                         \
    "ldrd %[x0], %[x1], [%[x]], #8\n\t"                                            \
    COLIBRI_W4A8_NEXT("r6", "%[x0]") COLIBRI_W4A8_NEXT("r8", "%[x1]")
#define COLIBRI_W4A8_NEXT(w, x) COLIBRI_W4A8_ADD(w, x, "%[cd]", "%[c]")

/* sum plus the group's products with its factors: halves of registers. */
#define COLIBRI_W4A8_COMBINE              \
    "ldr %[t], [%[factors]], #4\n\t"      \
    "ldmia %[sum], {r4, r5, r6, r8}\n\t"  \
    "sxtb16 %[even], %[t]\n\t"            \
    "sxtb16 %[t], %[t], ror #8\n\t"       \
    "smlabb r4, %[a], %[even], r4\n\t"    \
    "smlabb r5, %[b], %[t], r5\n\t"       \
    "smlabt r6, %[c], %[even], r6\n\t"    \
    "smlabt r8, %[d], %[t], r8\n\t"       \
    "stmia %[sum], {r4, r5, r6, r8}"

/* Adds to sum; all pointers end behind what they point to. sums: NULL where x has them between its groups, as
 * `colibri_sum_groups_between` makes it. */
COLIBRI_INSIDE void colibri_add_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict *restrict weights,
                                     const uint8_t *restrict *restrict scales, const int16_t *restrict x,
                                     const int32_t *restrict sums, int k)
{
    const uint8_t *restrict w = *weights;
    const uint8_t *restrict factors = *scales;
    const int16_t *const end = x + (sums == NULL ? k / 32 * 36 : k);
    do {
        uint32_t a;
        uint32_t all;
        if (sums == NULL) {
            __asm__("ldrd %0, %1, [%2], #8" : "=&r"(a), "=&r"(all), "+r"(x) : : "memory");
        } else {
            a = (uint32_t)*sums++;
            all = a + (a << 4) + (a << 8);
        }
        uint32_t cd;
        uint32_t c;
        uint32_t t;
        uint32_t x0;
        uint32_t x1;
        __asm__(COLIBRI_W4A8_EIGHT(COLIBRI_W4A8_ADD("r4", "%[x0]", "%[a]", "%[a]"))
                COLIBRI_W4A8_EIGHT(COLIBRI_W4A8_NEXT("r4", "%[x0]"))
                COLIBRI_W4A8_EIGHT(COLIBRI_W4A8_NEXT("r4", "%[x0]"))
                COLIBRI_W4A8_EIGHT(COLIBRI_W4A8_NEXT("r4", "%[x0]"))
                : [all] "+r"(all), [cd] "=&r"(cd), [a] "+r"(a), [c] "=&r"(c), [w] "+r"(w), [x] "+r"(x), [t] "=&r"(t),
                  [x0] "=&r"(x0), [x1] "=&r"(x1)
                :
                : "r4", "r5", "r6", "r8", "memory");
        const int32_t b = (int32_t)(all - a - (cd << 8)) >> 4;
        const int32_t d = (int32_t)(cd - c) >> 4;
        __asm__ volatile(COLIBRI_W4A8_COMBINE
                : [t] "=&r"(t), [even] "=&r"(x0), [factors] "+r"(factors)
                : [sum] "r"(sum), [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d)
                : "r4", "r5", "r6", "r8", "memory");
    } while (x != end);
    *weights = w;
    *scales = factors;
}

COLIBRI_ASSEMBLY void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict factors, const int16_t *restrict x,
                                       const int32_t *restrict sums, int k)
{
    for (int row = 0; row < COLIBRI_DOT_W4A8_ROWS; row++) {
        sum[row] = 0;
    }
    colibri_add_w4a8(sum, &w, &factors, x, sums, k);
}

/* y = ((float)sum * row_scale) * x_scale of n rows, a multiple of 4; row_scale: upper 16 bits of fp32, 4-byte aligned.
 * x: with sums between its groups. */
COLIBRI_ASSEMBLY void colibri_linear_w4a8(float *restrict y, const uint8_t *restrict w, const uint8_t *restrict factors,
                                          const uint16_t *restrict row_scale, const int32_t *restrict x,
                                          const float *restrict x_scale, int k, int n)
{
    const colibri_two *restrict scales = (const void *)row_scale;
    const float *const end = y + n;
    const float scale = *x_scale;
    while (y != end) {
        int32_t sum[COLIBRI_DOT_W4A8_ROWS] = {0};
        colibri_add_w4a8(sum, &w, &factors, (const void *)x, NULL, k);
        colibri_store_four(y, sum, scales[0], scales[1], scale);
        scales += 2;
        y += COLIBRI_DOT_W4A8_ROWS;
    }
}

#endif
