/* dot_fp4a8.h: 4 rows of a matrix of 4-bit floats times 8-bit activations, exactly, SSE4.1.
 *
 * A shuffle looks up twice each float, plus 12, and 12 times the activations is taken off: q x = (q + 12) x - 12 x. The
 * 16-bit sums are of four products of at most 24 * 127 and cannot saturate.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A8_H
#define COLIBRI_DOT_FP4A8_H

#include "kernels/portable/shared.h"
#include "kernels/sse41/powers.h"

#define COLIBRI_DOT_FP4A8_ROWS 4

/* A row's group of 32 products, in 4 sums. */
static inline __m128i colibri_part_fp4a8(const uint8_t *w, __m128i first, __m128i second, __m128i excess)
{
    const __m128i twice = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i low = _mm_shuffle_epi8(twice, _mm_and_si128(bytes, nibble));
    const __m128i high = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    const __m128i part = _mm_add_epi16(_mm_maddubs_epi16(low, first), _mm_maddubs_epi16(high, second));
    return _mm_madd_epi16(_mm_sub_epi16(part, excess), _mm_set1_epi16(1));
}

COLIBRI_INSIDE void colibri_dot_fp4a8(int64_t sum[COLIBRI_DOT_FP4A8_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict group_scale, const int8_t *restrict x, int k)
{
    const __m128i twelve = _mm_set1_epi8(12);
    colibri_powers total = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (int i = 0; i < k; i += 32) {
        const __m128i first = _mm_loadu_si128((const void *)(x + i));
        const __m128i second = _mm_loadu_si128((const void *)(x + i + 16));
        const __m128i excess = _mm_add_epi16(_mm_maddubs_epi16(twelve, first), _mm_maddubs_epi16(twelve, second));
        const __m128i rows01 = _mm_hadd_epi32(colibri_part_fp4a8(w, first, second, excess),
                                              colibri_part_fp4a8(w + 16, first, second, excess));
        const __m128i rows23 = _mm_hadd_epi32(colibri_part_fp4a8(w + 32, first, second, excess),
                                              colibri_part_fp4a8(w + 48, first, second, excess));
        total = colibri_add_powers(total, _mm_hadd_epi32(rows01, rows23), group_scale);
        group_scale += COLIBRI_DOT_FP4A8_ROWS;
        w += 64;
    }
    colibri_store_powers(sum, total);
}

#endif
