/* rope.h: rotate the pairs (i, i + head_dim / 2) of each head by position * frequency[i], AVX2.
 *
 * As portable/rope.h, eight pairs at a time.
 */
#ifndef COLIBRI_ROPE_H
#define COLIBRI_ROPE_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"
#include "kernels/portable/rope_2.h"

/* Cosines and sines of a table's first live pairs, of at most 8. */
COLIBRI_INSIDE void colibri_angles(__m256 *cosines, __m256 *sines, const float *restrict table, uint32_t live)
{
    const __m256 low = colibri_load_some(table, 2 * live);
    const __m256 high = live > 4 ? colibri_load_some(table + 8, 2 * live - 8) : _mm256_setzero_ps();
    const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)); /* of pairs 0 1 4 5 2 3 6 7 */
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xDD));
    *cosines = _mm256_castsi256_ps(_mm256_permute4x64_epi64(even, 0xD8));
    *sines = _mm256_castsi256_ps(_mm256_permute4x64_epi64(odd, 0xD8));
}

COLIBRI_SHARED void colibri_rope(float *restrict x, const float *restrict coarse, const float *restrict fine,
                                 uint32_t position, uint32_t step, uint32_t heads, uint32_t head_dim)
{
    const uint32_t half = head_dim / 2;
    const float *restrict a = coarse + position / step * head_dim;
    const float *restrict b = fine + position % step * head_dim;
    for (uint32_t i = 0; i < half; i += 8) {
        const uint32_t live = half - i < 8 ? half - i : 8;
        __m256 cos_a;
        __m256 sin_a;
        __m256 cos_b;
        __m256 sin_b;
        colibri_angles(&cos_a, &sin_a, a + 2 * i, live);
        colibri_angles(&cos_b, &sin_b, b + 2 * i, live);
        const __m256 cosine = _mm256_sub_ps(_mm256_mul_ps(cos_a, cos_b), _mm256_mul_ps(sin_a, sin_b));
        const __m256 sine = _mm256_add_ps(_mm256_mul_ps(sin_a, cos_b), _mm256_mul_ps(cos_a, sin_b));
        for (uint32_t head = 0; head < heads; head++) {
            float *pair = x + head * head_dim + i;
            const __m256 low = colibri_load_some(pair, live);
            const __m256 high = colibri_load_some(pair + half, live);
            colibri_store_some(pair, _mm256_sub_ps(_mm256_mul_ps(low, cosine), _mm256_mul_ps(high, sine)), live);
            colibri_store_some(pair + half, _mm256_add_ps(_mm256_mul_ps(high, cosine), _mm256_mul_ps(low, sine)), live);
        }
    }
}

#endif
