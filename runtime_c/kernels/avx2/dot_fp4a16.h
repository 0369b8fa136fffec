/* dot_fp4a16.h: 4 rows of a matrix of 4-bit floats times 16-bit activations, exactly, AVX2.
 *
 * A shuffle looks up twice each float. A group's sum is below 2^24.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A16_H
#define COLIBRI_DOT_FP4A16_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_FP4A16_ROWS 4

/* A row's group of 32 products, in 8 sums. */
static inline __m256i colibri_part_fp4a16(const uint8_t *w, __m256i first, __m256i second)
{
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i low = _mm_shuffle_epi8(twice, _mm_and_si128(bytes, nibble));
    const __m128i high = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_cvtepi8_epi16(low), first),
                            _mm256_madd_epi16(_mm256_cvtepi8_epi16(high), second));
}

COLIBRI_INSIDE void colibri_dot_fp4a16(int64_t sum[COLIBRI_DOT_FP4A16_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict group_scale, const int16_t *restrict x, int k)
{
    __m256i total = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        const __m256i first = _mm256_loadu_si256((const void *)(x + i));
        const __m256i second = _mm256_loadu_si256((const void *)(x + i + 16));
        const __m256i low =
            _mm256_hadd_epi32(colibri_part_fp4a16(w, first, second), colibri_part_fp4a16(w + 16, first, second));
        const __m256i high =
            _mm256_hadd_epi32(colibri_part_fp4a16(w + 32, first, second), colibri_part_fp4a16(w + 48, first, second));
        const __m256i both = _mm256_hadd_epi32(low, high); /* rows 0 to 3 in each half */
        const __m128i parts = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        const __m256i powers = _mm256_cvtepu8_epi64(_mm_loadu_si32(group_scale));
        total = _mm256_add_epi64(total, _mm256_sllv_epi64(_mm256_cvtepi32_epi64(parts), powers));
        group_scale += COLIBRI_DOT_FP4A16_ROWS;
        w += 64;
    }
    _mm256_storeu_si256((void *)sum, total);
}

#endif
