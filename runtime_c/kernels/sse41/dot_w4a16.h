/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, SSE4.1.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x. A group's
 * sum of 32 such products stays below 2^24.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 4

/* A row's group of 32 products, in 4 sums. */
static inline __m128i colibri_part_w4a16(const uint8_t *w, const __m128i x[4])
{
    const __m128i zero = _mm_setzero_si128();
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const __m128i first = _mm_add_epi32(_mm_madd_epi16(_mm_unpacklo_epi8(low, zero), x[0]),
                                        _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), x[1]));
    const __m128i second = _mm_add_epi32(_mm_madd_epi16(_mm_unpacklo_epi8(high, zero), x[2]),
                                         _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), x[3]));
    return _mm_add_epi32(first, second);
}

COLIBRI_SHARED void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    const __m128i eight = _mm_set1_epi16(8);
    __m128i total = _mm_setzero_si128(); /* a lane is a row */
    for (int i = 0; i < k; i += 32) {
        __m128i values[4];
        __m128i excess = _mm_setzero_si128();
        for (int j = 0; j < 4; j++) {
            values[j] = _mm_loadu_si128((const void *)(x + i + 8 * j));
            excess = _mm_add_epi32(excess, _mm_madd_epi16(eight, values[j]));
        }
        const __m128i part0 = _mm_sub_epi32(colibri_part_w4a16(w, values), excess);
        const __m128i part1 = _mm_sub_epi32(colibri_part_w4a16(w + 16, values), excess);
        const __m128i part2 = _mm_sub_epi32(colibri_part_w4a16(w + 32, values), excess);
        const __m128i part3 = _mm_sub_epi32(colibri_part_w4a16(w + 48, values), excess);
        const __m128i parts = _mm_hadd_epi32(_mm_hadd_epi32(part0, part1), _mm_hadd_epi32(part2, part3));
        const __m128i scales = _mm_cvtepi8_epi32(_mm_loadu_si32(factors));
        total = _mm_add_epi32(total, _mm_mullo_epi32(parts, scales));
        factors += COLIBRI_DOT_W4A16_ROWS;
        w += 64;
    }
    _mm_storeu_si128((void *)sum, total);
}

#endif
