/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, SSE4.1.
 *
 * Packing: [k / 16][4][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero
 * padded. |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any
 * order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 4

/* total plus a row's 16 products. */
static inline __m128i colibri_add_w8a16(__m128i total, const uint8_t *w, __m128i first, __m128i second)
{
    const __m128i weights0 = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)w));
    const __m128i weights1 = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)(w + 8)));
    total = _mm_add_epi32(total, _mm_madd_epi16(weights0, first));
    return _mm_add_epi32(total, _mm_madd_epi16(weights1, second));
}

COLIBRI_INSIDE void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                      const int16_t *restrict x, int k)
{
    __m128i total0 = _mm_setzero_si128();
    __m128i total1 = _mm_setzero_si128();
    __m128i total2 = _mm_setzero_si128();
    __m128i total3 = _mm_setzero_si128();
    for (int i = 0; i < k; i += 16) {
        const __m128i first = _mm_loadu_si128((const void *)(x + i));
        const __m128i second = _mm_loadu_si128((const void *)(x + i + 8));
        total0 = colibri_add_w8a16(total0, w, first, second);
        total1 = colibri_add_w8a16(total1, w + 16, first, second);
        total2 = colibri_add_w8a16(total2, w + 32, first, second);
        total3 = colibri_add_w8a16(total3, w + 48, first, second);
        w += 64;
    }
    const __m128i rows = _mm_hadd_epi32(_mm_hadd_epi32(total0, total1), _mm_hadd_epi32(total2, total3));
    _mm_storeu_si128((void *)sum, rows);
}

#endif
