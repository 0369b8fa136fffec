/* dot_f16.h: 16 rows of a matrix of half precision times one vector of fp32, SSE4.1.
 *
 * As dot_f32, of weights that became fp32, which is exact: as fp32 bits the exponent is 112 too small, and the product
 * with 2^112 makes up for it, denormals included.
 * Packing: [k][16] fp16, none infinite or NaN, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F16_H
#define COLIBRI_DOT_F16_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_F16_ROWS 16

/* total plus a value times the weights of four rows, whose halves stand in the lower half of each lane. */
static inline __m128 colibri_add_f16(__m128 total, __m128 value, __m128i halves)
{
    const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(halves, _mm_set1_epi32(0x7FFF)), 13);
    const __m128i sign = _mm_slli_epi32(_mm_srli_epi32(halves, 15), 31);
    const __m128 rows = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112f));
    return _mm_add_ps(total, _mm_mul_ps(value, _mm_or_ps(rows, _mm_castsi128_ps(sign))));
}

COLIBRI_INSIDE void colibri_dot_f16(float sum[COLIBRI_DOT_F16_ROWS], const uint16_t *restrict w,
                                    const float *restrict x, int k)
{
    const __m128i zero = _mm_setzero_si128();
    __m128 total0 = _mm_setzero_ps();
    __m128 total1 = _mm_setzero_ps();
    __m128 total2 = _mm_setzero_ps();
    __m128 total3 = _mm_setzero_ps();
    for (int i = 0; i < k; i++) {
        const __m128 value = _mm_set1_ps(x[i]);
        const __m128i first = _mm_loadu_si128((const void *)w);
        const __m128i second = _mm_loadu_si128((const void *)(w + 8));
        total0 = colibri_add_f16(total0, value, _mm_unpacklo_epi16(first, zero));
        total1 = colibri_add_f16(total1, value, _mm_unpackhi_epi16(first, zero));
        total2 = colibri_add_f16(total2, value, _mm_unpacklo_epi16(second, zero));
        total3 = colibri_add_f16(total3, value, _mm_unpackhi_epi16(second, zero));
        w += COLIBRI_DOT_F16_ROWS;
    }
    _mm_storeu_ps(sum, total0);
    _mm_storeu_ps(sum + 4, total1);
    _mm_storeu_ps(sum + 8, total2);
    _mm_storeu_ps(sum + 12, total3);
}

#endif
