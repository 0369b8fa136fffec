/* dot_planes_a16.h: 4 rows of a matrix of 2 to 6 bits times 16-bit activations, exactly, SSE4.1.
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
#include "kernels/portable/shared.h"
#include "kernels/sse41/planes.h"

#define COLIBRI_DOT_PLANES_A16_ROWS 4

/* A row's group of 32 products, in 4 sums. */
COLIBRI_INSIDE __m128i colibri_part_planes_a16(const uint8_t *w, int row, int bits, const __m128i x[4])
{
    const colibri_planes planes = colibri_load_planes(w, row, bits);
    __m128i part = _mm_setzero_si128();
    for (int half = 0; half < 2; half++) {
        const __m128i q = colibri_sixteen(planes, half, bits);
        const __m128i low = _mm_unpacklo_epi8(q, _mm_setzero_si128());
        const __m128i high = _mm_unpackhi_epi8(q, _mm_setzero_si128());
        part = _mm_add_epi32(part, _mm_madd_epi16(low, x[2 * half]));
        part = _mm_add_epi32(part, _mm_madd_epi16(high, x[2 * half + 1]));
    }
    return part;
}

COLIBRI_INSIDE void colibri_dot_planes_a16(int32_t sum[COLIBRI_DOT_PLANES_A16_ROWS], const uint8_t *restrict w,
                                           const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                           const int16_t *restrict x, int k, int bits, int group)
{
    __m128i total = _mm_setzero_si128(); /* a lane is a row */
    for (int i = 0; i < k; i += 32) {
        __m128i eights[4];
        __m128i values = _mm_setzero_si128();
        for (int j = 0; j < 4; j++) {
            eights[j] = _mm_loadu_si128((const void *)(x + i + 8 * j));
            values = _mm_add_epi32(values, _mm_madd_epi16(_mm_set1_epi16(1), eights[j]));
        }
        values = _mm_hadd_epi32(values, values);
        values = _mm_hadd_epi32(values, values); /* the sum in every lane */
        const __m128i rows01 =
            _mm_hadd_epi32(colibri_part_planes_a16(w, 0, bits, eights), colibri_part_planes_a16(w, 1, bits, eights));
        const __m128i rows23 =
            _mm_hadd_epi32(colibri_part_planes_a16(w, 2, bits, eights), colibri_part_planes_a16(w, 3, bits, eights));
        const int at = i / group * COLIBRI_DOT_PLANES_A16_ROWS;
        const __m128i factor = _mm_cvtepi8_epi32(_mm_loadu_si32(factors + at));
        __m128i shift = _mm_slli_epi32(factor, bits - 1); /* times the activations, what is taken off */
        if (zeros != NULL) {
            const __m128i zero = _mm_cvtepu8_epi32(_mm_loadu_si32(zeros + at));
            shift = _mm_srai_epi32(_mm_mullo_epi32(zero, factor), 8 - bits);
        }
        total = _mm_add_epi32(total, _mm_mullo_epi32(_mm_hadd_epi32(rows01, rows23), factor));
        total = _mm_sub_epi32(total, _mm_mullo_epi32(values, shift));
        w += COLIBRI_DOT_PLANES_A16_ROWS * 4 * bits;
    }
    _mm_storeu_si128((void *)sum, total);
}

#endif
