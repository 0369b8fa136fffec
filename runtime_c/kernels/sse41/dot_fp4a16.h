/* dot_fp4a16.h: 4 rows of a matrix of 4-bit floats times 16-bit activations, exactly, SSE4.1.
 *
 * A shuffle looks up twice each float. A group's sum is below 2^24.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A16_H
#define COLIBRI_DOT_FP4A16_H

#include "kernels/portable/shared.h"
#include "kernels/sse41/powers.h"

#define COLIBRI_DOT_FP4A16_ROWS 4

/* 16 weights times 16 activations, in 4 sums. */
static inline __m128i colibri_half_fp4a16(__m128i weights, const int16_t *x)
{
    const __m128i first = _mm_loadu_si128((const void *)x);
    const __m128i second = _mm_loadu_si128((const void *)(x + 8));
    return _mm_add_epi32(_mm_madd_epi16(_mm_cvtepi8_epi16(weights), first),
                         _mm_madd_epi16(_mm_cvtepi8_epi16(_mm_srli_si128(weights, 8)), second));
}

/* A row's group of 32 products, in 4 sums. */
static inline __m128i colibri_part_fp4a16(const uint8_t *w, const int16_t *x)
{
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i low = _mm_shuffle_epi8(twice, _mm_and_si128(bytes, nibble));
    const __m128i high = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    return _mm_add_epi32(colibri_half_fp4a16(low, x), colibri_half_fp4a16(high, x + 16));
}

COLIBRI_INSIDE void colibri_dot_fp4a16(int64_t sum[COLIBRI_DOT_FP4A16_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict group_scale, const int16_t *restrict x, int k)
{
    colibri_powers total = {_mm_setzero_si128(), _mm_setzero_si128()};
    for (int i = 0; i < k; i += 32) {
        const __m128i rows01 = _mm_hadd_epi32(colibri_part_fp4a16(w, x + i), colibri_part_fp4a16(w + 16, x + i));
        const __m128i rows23 = _mm_hadd_epi32(colibri_part_fp4a16(w + 32, x + i), colibri_part_fp4a16(w + 48, x + i));
        total = colibri_add_powers(total, _mm_hadd_epi32(rows01, rows23), group_scale);
        group_scale += COLIBRI_DOT_FP4A16_ROWS;
        w += 64;
    }
    colibri_store_powers(sum, total);
}

#endif
