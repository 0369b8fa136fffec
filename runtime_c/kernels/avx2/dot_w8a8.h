/* dot_w8a8.h: 4 rows of an 8-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * vpmaddubsw wants one unsigned factor: w x = (w with the sign of x) |x|. Its 16-bit sums of two products cannot
 * saturate, since |w|, |x| <= 127: 2 * 127 * 127 < 2^15.
 * Packing: [k / 32][4][32] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 32, zero
 * padded. 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <immintrin.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 4

/* total plus a row's 32 products. */
static inline __m256i colibri_add_w8a8(__m256i total, const uint8_t *w, __m256i values, __m256i magnitudes)
{
    const __m256i weights = _mm256_sign_epi8(_mm256_loadu_si256((const void *)w), values);
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, weights);
    return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    __m256i total0 = _mm256_setzero_si256();
    __m256i total1 = _mm256_setzero_si256();
    __m256i total2 = _mm256_setzero_si256();
    __m256i total3 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        const __m256i values = _mm256_loadu_si256((const void *)(x + i));
        const __m256i magnitudes = _mm256_abs_epi8(values);
        total0 = colibri_add_w8a8(total0, w, values, magnitudes);
        total1 = colibri_add_w8a8(total1, w + 32, values, magnitudes);
        total2 = colibri_add_w8a8(total2, w + 64, values, magnitudes);
        total3 = colibri_add_w8a8(total3, w + 96, values, magnitudes);
        w += 128;
    }
    const __m256i low = _mm256_hadd_epi32(total0, total1);
    const __m256i high = _mm256_hadd_epi32(total2, total3);
    const __m256i both = _mm256_hadd_epi32(low, high); /* rows 0 to 3 in each half */
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
