/* dot_fp4a8.h: 4 rows of a matrix of 4-bit floats times 8-bit activations, exactly, AVX2.
 *
 * A register holds the same group of two rows. A shuffle looks up twice each float, plus 12, and 12 times the
 * activations is taken off: q x = (q + 12) x - 12 x. The 16-bit sums are of four products of at most 24 * 127 and
 * cannot saturate.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A8_H
#define COLIBRI_DOT_FP4A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_FP4A8_ROWS 4

/* A group's 32 products of two rows, in 4 sums of 32 bits each. */
static inline __m256i colibri_part_fp4a8(const uint8_t *w, __m256i first, __m256i second, __m256i excess)
{
    const __m256i twice =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i low = _mm256_shuffle_epi8(twice, _mm256_and_si256(bytes, nibble));
    const __m256i high = _mm256_shuffle_epi8(twice, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
    const __m256i part = _mm256_add_epi16(_mm256_maddubs_epi16(low, first), _mm256_maddubs_epi16(high, second));
    return _mm256_madd_epi16(_mm256_sub_epi16(part, excess), _mm256_set1_epi16(1));
}

COLIBRI_INSIDE void colibri_dot_fp4a8(int64_t sum[COLIBRI_DOT_FP4A8_ROWS], const uint8_t *restrict w,
                                      const uint8_t *restrict group_scale, const int8_t *restrict x, int k)
{
    const __m256i twelve = _mm256_set1_epi8(12);
    __m256i total = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i)));
        const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i + 16)));
        const __m256i excess =
            _mm256_add_epi16(_mm256_maddubs_epi16(twelve, first), _mm256_maddubs_epi16(twelve, second));
        const __m256i rows01 = colibri_part_fp4a8(w, first, second, excess);
        const __m256i rows23 = colibri_part_fp4a8(w + 32, first, second, excess);
        /* Rows 0 and 2 meet in the lower half, 1 and 3 in the upper. */
        __m256i both = _mm256_hadd_epi32(rows01, rows23);
        both = _mm256_hadd_epi32(both, both);
        const __m128i parts = _mm_unpacklo_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        const __m256i powers = _mm256_cvtepu8_epi64(_mm_loadu_si32(group_scale));
        total = _mm256_add_epi64(total, _mm256_sllv_epi64(_mm256_cvtepi32_epi64(parts), powers));
        group_scale += COLIBRI_DOT_FP4A8_ROWS;
        w += 64;
    }
    _mm256_storeu_si256((void *)sum, total);
}

#endif
