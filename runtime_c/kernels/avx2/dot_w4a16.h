/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, AVX2.
 *
 * Nibbles are used as they lie, 0 to 15, and 8 times the activations is taken off: (q - 8) x = q x - 8 x. A lane's
 * sum of four such products stays below 2^21.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A16_ROWS 4

/* total plus a row's group of 32 products. */
static inline __m256i colibri_add_w4a16(__m256i total, const uint8_t *w, int32_t scale, __m256i first, __m256i second,
                                        __m256i excess)
{
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w));
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi16(15));
    const __m256i high = _mm256_srli_epi16(bytes, 4);
    const __m256i part = _mm256_add_epi32(_mm256_madd_epi16(low, first), _mm256_madd_epi16(high, second));
    return _mm256_add_epi32(total, _mm256_mullo_epi32(_mm256_sub_epi32(part, excess), _mm256_set1_epi32(scale)));
}

COLIBRI_INSIDE void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    const __m256i eight = _mm256_set1_epi16(8);
    __m256i total0 = _mm256_setzero_si256();
    __m256i total1 = _mm256_setzero_si256();
    __m256i total2 = _mm256_setzero_si256();
    __m256i total3 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        colibri_fetch_line(w);
        const __m256i first = _mm256_loadu_si256((const void *)(x + i));
        const __m256i second = _mm256_loadu_si256((const void *)(x + i + 16));
        const __m256i excess = _mm256_add_epi32(_mm256_madd_epi16(eight, first), _mm256_madd_epi16(eight, second));
        total0 = colibri_add_w4a16(total0, w, factor[0], first, second, excess);
        total1 = colibri_add_w4a16(total1, w + 16, factor[1], first, second, excess);
        total2 = colibri_add_w4a16(total2, w + 32, factor[2], first, second, excess);
        total3 = colibri_add_w4a16(total3, w + 48, factor[3], first, second, excess);
        factor += COLIBRI_DOT_W4A16_ROWS;
        w += 64;
    }
    const __m256i low = _mm256_hadd_epi32(total0, total1);
    const __m256i high = _mm256_hadd_epi32(total2, total3);
    const __m256i both = _mm256_hadd_epi32(low, high); /* rows 0 to 3 in each half */
    _mm_storeu_si128((void *)sum, _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
