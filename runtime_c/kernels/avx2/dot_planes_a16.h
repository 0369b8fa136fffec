/* dot_planes_a16.h: 4 rows of a matrix of 2 to 6 bits times 16-bit activations, exactly, AVX2.
 *
 * Integers are used as they lie, q, and 2^(bits - 1) times the activations is taken off; modulo 2^32 what is in between
 * may overflow.
 * Packing, portable/planes.h: [k / 32][plane][4 rows][4 * bits of the plane] bytes, 16-byte aligned at the matrix's
 * start. factors, zeros (or NULL): [groups][4]. bits and group (32, 64 or 128) are constants. x: k values, k a multiple
 * of 32, zero padded; |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A16_H
#define COLIBRI_DOT_PLANES_A16_H

#include <stddef.h>
#include "kernels/avx2/planes.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_PLANES_A16_ROWS 4

/* Two rows' numbers, each in a half. */
static inline __m256i colibri_halves(int32_t lower, int32_t upper)
{
    return _mm256_setr_m128i(_mm_set1_epi32(lower), _mm_set1_epi32(upper));
}

COLIBRI_INSIDE void colibri_dot_planes_a16(int32_t sum[COLIBRI_DOT_PLANES_A16_ROWS], const uint8_t *restrict w,
                                           const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                           const int16_t *restrict x, int k, int bits, int group)
{
    __m256i total02 = _mm256_setzero_si256();
    __m256i total13 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        const colibri_planes planes = colibri_load_planes(w, bits);
        __m256i part02 = _mm256_setzero_si256();
        __m256i part13 = _mm256_setzero_si256();
        __m256i values = _mm256_setzero_si256();
        for (int s = 0; s < 4; s++) {
            const __m256i eight = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i + 8 * s)));
            const __m256i q = colibri_eight(planes, s, bits);
            const __m256i rows02 = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(q));
            const __m256i rows13 = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(q, 1));
            part02 = _mm256_add_epi32(part02, _mm256_madd_epi16(rows02, eight));
            part13 = _mm256_add_epi32(part13, _mm256_madd_epi16(rows13, eight));
            values = _mm256_add_epi32(values, _mm256_madd_epi16(_mm256_set1_epi16(1), eight));
        }
        const int8_t *factor = (const int8_t *)factors + i / group * COLIBRI_DOT_PLANES_A16_ROWS;
        int32_t shift[COLIBRI_DOT_PLANES_A16_ROWS]; /* times the activations, what is taken off */
        for (int row = 0; row < COLIBRI_DOT_PLANES_A16_ROWS; row++) {
            shift[row] = zeros == NULL
                             ? factor[row] * (1 << (bits - 1))
                             : colibri_zero(zeros[i / group * COLIBRI_DOT_PLANES_A16_ROWS + row], factor[row], bits);
        }
        part02 = _mm256_mullo_epi32(part02, colibri_halves(factor[0], factor[2]));
        part13 = _mm256_mullo_epi32(part13, colibri_halves(factor[1], factor[3]));
        part02 = _mm256_sub_epi32(part02, _mm256_mullo_epi32(values, colibri_halves(shift[0], shift[2])));
        part13 = _mm256_sub_epi32(part13, _mm256_mullo_epi32(values, colibri_halves(shift[1], shift[3])));
        total02 = _mm256_add_epi32(total02, part02);
        total13 = _mm256_add_epi32(total13, part13);
        w += COLIBRI_DOT_PLANES_A16_ROWS * 4 * bits;
    }
    /* Rows 0 and 1 meet in the lower half, 2 and 3 in the upper. */
    __m256i both = _mm256_hadd_epi32(total02, total13);
    both = _mm256_hadd_epi32(both, both);
    _mm_storeu_si128((void *)sum, _mm_unpacklo_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
