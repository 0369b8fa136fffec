/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, SSE4.1.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x. The 16-bit
 * sums are of four products of at most 15 * 127 and cannot saturate; pmaddwd multiplies them by the group's scale.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4

/* total plus a row's group of 32 products; scale: the group's, in every 16 bits. */
static inline __m128i colibri_add_w4a8(__m128i total, const uint8_t *w, __m128i scale, __m128i first, __m128i second,
                                       __m128i excess)
{
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const __m128i part = _mm_add_epi16(_mm_maddubs_epi16(low, first), _mm_maddubs_epi16(high, second));
    return _mm_add_epi32(total, _mm_madd_epi16(_mm_sub_epi16(part, excess), scale));
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const __m128i eight = _mm_set1_epi8(8);
    /* Each picks one 16-bit value for all lanes. */
    const __m128i copies0 = _mm_set1_epi16(0x0100);
    const __m128i copies1 = _mm_set1_epi16(0x0302);
    const __m128i copies2 = _mm_set1_epi16(0x0504);
    const __m128i copies3 = _mm_set1_epi16(0x0706);
    __m128i total0 = _mm_setzero_si128();
    __m128i total1 = _mm_setzero_si128();
    __m128i total2 = _mm_setzero_si128();
    __m128i total3 = _mm_setzero_si128();
    for (int i = 0; i < k; i += 32) {
        const __m128i first = _mm_loadu_si128((const void *)(x + i));
        const __m128i second = _mm_loadu_si128((const void *)(x + i + 16));
        const __m128i excess = _mm_add_epi16(_mm_maddubs_epi16(eight, first), _mm_maddubs_epi16(eight, second));
        const __m128i scales = _mm_cvtepi8_epi16(_mm_loadu_si32(factors));
        total0 = colibri_add_w4a8(total0, w, _mm_shuffle_epi8(scales, copies0), first, second, excess);
        total1 = colibri_add_w4a8(total1, w + 16, _mm_shuffle_epi8(scales, copies1), first, second, excess);
        total2 = colibri_add_w4a8(total2, w + 32, _mm_shuffle_epi8(scales, copies2), first, second, excess);
        total3 = colibri_add_w4a8(total3, w + 48, _mm_shuffle_epi8(scales, copies3), first, second, excess);
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 64;
    }
    const __m128i rows = _mm_hadd_epi32(_mm_hadd_epi32(total0, total1), _mm_hadd_epi32(total2, total3));
    _mm_storeu_si128((void *)sum, rows);
}

#endif
