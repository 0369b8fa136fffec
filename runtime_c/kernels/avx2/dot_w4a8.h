/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * A register holds the same group of two rows. Nibbles are used as they lie, 0 to 15, and 8 times the activations
 * is taken off: (q - 8) x = q x - 8 x. The 16-bit sums are of four products of at most 15 * 127 and cannot saturate;
 * vpmaddwd multiplies them by the group's scale.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31. Weights are
 * fetched ahead, beyond the matrix's end too, which no processor minds.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <immintrin.h>
#include <stdint.h>

#define COLIBRI_DOT_W4A8_ROWS 4

/* total plus a group's 32 products of two rows; scales: theirs, as 16-bit values in the row's half. */
static inline __m256i colibri_add_w4a8(__m256i total, const uint8_t *w, __m256i scales, __m256i first, __m256i second,
                                       __m256i excess)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
    const __m256i part = _mm256_add_epi16(_mm256_maddubs_epi16(low, first), _mm256_maddubs_epi16(high, second));
    return _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_sub_epi16(part, excess), scales));
}

static inline void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                    const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const __m256i eight = _mm256_set1_epi8(8);
    /* Picks the 16-bit values 0 and 1, or 2 and 3, for the lower and the upper half. */
    const __m256i rows01 = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
    const __m256i rows23 = _mm256_setr_m128i(_mm_set1_epi16(0x0504), _mm_set1_epi16(0x0706));
    __m256i total01 = _mm256_setzero_si256();
    __m256i total23 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        _mm_prefetch((const char *)((uintptr_t)w + 2048), _MM_HINT_T0); /* a number: it may lie beyond the matrix */
        const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i)));
        const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i + 16)));
        const __m256i excess =
            _mm256_add_epi16(_mm256_maddubs_epi16(eight, first), _mm256_maddubs_epi16(eight, second));
        const __m256i scales = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_loadu_si32(factors)));
        total01 = colibri_add_w4a8(total01, w, _mm256_shuffle_epi8(scales, rows01), first, second, excess);
        total23 = colibri_add_w4a8(total23, w + 32, _mm256_shuffle_epi8(scales, rows23), first, second, excess);
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 64;
    }
    /* Rows 0 and 2 meet in the lower half, 1 and 3 in the upper. */
    __m256i both = _mm256_hadd_epi32(total01, total23);
    both = _mm256_hadd_epi32(both, both);
    _mm_storeu_si128((void *)sum, _mm_unpacklo_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
