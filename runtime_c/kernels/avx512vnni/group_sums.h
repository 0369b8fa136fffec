/* group_sums.h: -8 times the sums of every 32 activations: what weights that have 8 added multiply too much. AVX-512 VNNI.
 *
 * x: k values, k a multiple of 32, zero padded. sums: [k / 32].
 */
#ifndef COLIBRI_GROUP_SUMS_H
#define COLIBRI_GROUP_SUMS_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

/* That of 32 values. */
COLIBRI_INSIDE int32_t colibri_sum_group(const int8_t *x)
{
    const __m256i eight = _mm256_set1_epi8(8);
    const __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), eight, _mm256_loadu_si256((const void *)x));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return -_mm_cvtsi128_si32(four);
}

COLIBRI_SHARED void colibri_sum_groups(int32_t *restrict sums, const int8_t *restrict x, int k)
{
    for (int i = 0; i < k; i += 32) {
        *sums++ = colibri_sum_group(x + i);
    }
}

#endif
