/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, with SMLAD.
 *
 * 16 bits hold weights of four rows as a + 16 b + 256 c + 4096 d, where 8 was added to a, b and c. Four SMLADs multiply
 * them with two activations: all as they are, c + 16 d, a, and 256 c. All sums are modulo 2^32: 16 times a group's sum of
 * b or d, and 256 times that of c less the 8s, are below 2^31 for any activations, so their differences say each exactly.
 * 32 columns of 4 rows take 128 instructions, and about 30 that combine them.
 * Packing: [k / 2] words, 8-byte aligned; a word has two columns. factors: int8 [groups][4], of group columns each, a
 * multiple of 32. x: k values, 8-byte aligned, k a multiple of 32, zero padded. sums: of every 32 activations,
 * times -8. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <stdint.h>
#include "kernels/dsp/group_sums.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 4

/* Two columns, the first ones of 32 and others. */
#define COLIBRI_W4A16_FIRST(w, x)       \
    "smuad %[all], " w ", " x "\n\t"    \
    "sxtb16 %[t], " w ", ror #8\n\t"    \
    "smuad %[cd], %[t], " x "\n\t"      \
    "and %[t], " w ", #0x000F000F\n\t"  \
    "smuad %[a], %[t], " x "\n\t"       \
    "and " w ", " w ", #0x0F000F00\n\t" \
    "smuad %[c], " w ", " x "\n\t"
#define COLIBRI_W4A16_NEXT(w, x)             \
    "smlad %[all], " w ", " x ", %[all]\n\t" \
    "sxtb16 %[t], " w ", ror #8\n\t"         \
    "smlad %[cd], %[t], " x ", %[cd]\n\t"    \
    "and %[t], " w ", #0x000F000F\n\t"       \
    "smlad %[a], %[t], " x ", %[a]\n\t"      \
    "and " w ", " w ", #0x0F000F00\n\t"      \
    "smlad %[c], " w ", " x ", %[c]\n\t"
#define COLIBRI_W4A16_LOAD              \
    "ldrd %[w0], %[w1], [%[w]], #8\n\t" \
    "ldrd %[x0], %[x1], [%[x]], #8\n\t"
#define COLIBRI_W4A16_FOUR COLIBRI_W4A16_LOAD COLIBRI_W4A16_NEXT("%[w0]", "%[x0]") COLIBRI_W4A16_NEXT("%[w1]", "%[x1]")

/* sum plus the group's products with its factors. */
#define COLIBRI_W4A16_ADD                \
    "ldmia %[sum], {r4, r5, r6, r8}\n\t" \
    "ldrsb %[t], [%[factor], #0]\n\t"    \
    "mla r4, %[a], %[t], r4\n\t"         \
    "ldrsb %[t], [%[factor], #1]\n\t"    \
    "mla r5, %[b], %[t], r5\n\t"         \
    "ldrsb %[t], [%[factor], #2]\n\t"    \
    "mla r6, %[c], %[t], r6\n\t"         \
    "ldrsb %[t], [%[factor], #3]\n\t"    \
    "mla r8, %[d], %[t], r8\n\t"         \
    "stmia %[sum], {r4, r5, r6, r8}"

COLIBRI_ASSEMBLY void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                        const uint8_t *restrict factors, const int16_t *restrict x,
                                        const int32_t *restrict sums, int k, int group)
{
    const int16_t *const end = x + k;
    /* What x is past this, shifted so, counts four bytes a group, and more that is cut off. */
    const uint32_t before = (uint32_t)(uintptr_t)x + 1;
    const int shift = group == 32 ? 4 : group == 64 ? 5 : 6;
    for (int row = 0; row < COLIBRI_DOT_W4A16_ROWS; row++) {
        sum[row] = 0;
    }
    while (x != end) {
        uint32_t all;
        uint32_t cd;
        uint32_t a;
        uint32_t c;
        uint32_t t;
        uint32_t w0;
        uint32_t w1;
        uint32_t x0;
        uint32_t x1;
        __asm__(COLIBRI_W4A16_LOAD COLIBRI_W4A16_FIRST("%[w0]", "%[x0]") COLIBRI_W4A16_NEXT("%[w1]", "%[x1]")
                    COLIBRI_W4A16_FOUR COLIBRI_W4A16_FOUR COLIBRI_W4A16_FOUR COLIBRI_W4A16_FOUR COLIBRI_W4A16_FOUR
                        COLIBRI_W4A16_FOUR COLIBRI_W4A16_FOUR
                : [all] "=&r"(all), [cd] "=&r"(cd), [a] "=&r"(a), [c] "=&r"(c), [w] "+r"(w), [x] "+r"(x),
                  [t] "=&r"(t), [w0] "=&r"(w0), [w1] "=&r"(w1), [x0] "=&r"(x0), [x1] "=&r"(x1)
                :
                : "memory");
        const uint32_t eights = (uint32_t)-*sums++;
        const int32_t b = (int32_t)(all - cd * 256 - a - eights * 16) >> 4;
        const int32_t third = (int32_t)(c - eights * 256) >> 8;
        const int32_t d = (int32_t)(cd - eights - (uint32_t)third) >> 4;
        const uint8_t *const factor = factors + (((uint32_t)(uintptr_t)x - before) >> shift & ~3u);
        __asm__ volatile(COLIBRI_W4A16_ADD
                : [t] "=&r"(t)
                : [factor] "r"(factor), [sum] "r"(sum), [a] "r"(a - eights), [b] "r"(b), [c] "r"(third), [d] "r"(d)
                : "r4", "r5", "r6", "r8", "memory");
    }
}

#endif
