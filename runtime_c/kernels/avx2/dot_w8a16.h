/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, AVX2.
 *
 * Packing: [k / 16][4][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero
 * padded. |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any
 * order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A16_ROWS 4

/* total plus a row's 16 products. */
static inline __m256i colibri_add_w8a16(__m256i total, const uint8_t *w, __m256i values)
{
    const __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w));
    return _mm256_add_epi32(total, _mm256_madd_epi16(weights, values));
}

COLIBRI_INSIDE void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                      const int16_t *restrict x, int k)
{
    __m256i total0 = _mm256_setzero_si256();
    __m256i total1 = _mm256_setzero_si256();
    __m256i total2 = _mm256_setzero_si256();
    __m256i total3 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 16) {
        colibri_fetch_line(w);
        const __m256i values = _mm256_loadu_si256((const void *)(x + i));
        total0 = colibri_add_w8a16(total0, w, values);
        total1 = colibri_add_w8a16(total1, w + 16, values);
        total2 = colibri_add_w8a16(total2, w + 32, values);
        total3 = colibri_add_w8a16(total3, w + 48, values);
        w += 64;
    }
    const __m256i low = _mm256_hadd_epi32(total0, total1);
    const __m256i high = _mm256_hadd_epi32(total2, total3);
    const __m256i both = _mm256_hadd_epi32(low, high); /* rows 0 to 3 in each half */
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
