/* dot_planes_a8.h: 4 rows of a matrix of 2 to 6 bits times 8-bit activations, exactly, AVX2.
 *
 * Integers are used as they lie, q, and 2^(bits - 1) times the activations is taken off, all modulo 2^16: what is left
 * of eight products is at most 32 * 127 * 8 < 2^15. vpmaddwd multiplies it by the group's factor.
 * Packing, portable/planes.h: [k / 32][plane][4 rows][4 * bits of the plane] bytes, 16-byte aligned at the matrix's
 * start. factors, zeros (or NULL): [groups][4]. bits and group (32, 64 or 128) are constants. x: k values, k a multiple
 * of 32, zero padded; |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A8_H
#define COLIBRI_DOT_PLANES_A8_H

#include <stddef.h>
#include "kernels/avx2/planes.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_PLANES_A8_ROWS 4

COLIBRI_INSIDE void colibri_dot_planes_a8(int32_t sum[COLIBRI_DOT_PLANES_A8_ROWS], const uint8_t *restrict w,
                                          const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                          const int8_t *restrict x, int k, int bits, int group)
{
    const __m256i middle = _mm256_set1_epi16((int16_t)(1 << (bits - 1)));
    /* Four copies of the 16-bit values of rows 0, 2, 1 and 3. */
    const __m256i copies =
        _mm256_setr_epi64x(0x0100010001000100, 0x0504050405040504, 0x0302030203020302, 0x0706070607060706);
    __m256i total = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        const colibri_planes planes = colibri_load_planes(w, bits);
        __m256i part = _mm256_setzero_si256();
        __m256i values = _mm256_setzero_si256();
        for (int s = 0; s < 4; s++) {
            const __m256i eight = _mm256_broadcastq_epi64(_mm_loadl_epi64((const void *)(x + i + 8 * s)));
            part = _mm256_add_epi16(part, _mm256_maddubs_epi16(colibri_eight(planes, s, bits), eight));
            values = _mm256_add_epi16(values, _mm256_maddubs_epi16(_mm256_set1_epi8(1), eight));
        }
        const int at = i / group * COLIBRI_DOT_PLANES_A8_ROWS;
        const __m128i bytes = _mm_loadu_si32(factors + at);
        const __m256i factor = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(_mm_cvtepi8_epi16(bytes)), copies);
        part = _mm256_sub_epi16(part, _mm256_mullo_epi16(values, middle));
        total = _mm256_add_epi32(total, _mm256_madd_epi16(part, factor));
        if (zeros != NULL) {
            const __m128i points = _mm_cvtepu8_epi16(_mm_loadu_si32(zeros + at));
            const __m256i zero = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(points), copies);
            const __m256i units = _mm256_srai_epi16(_mm256_mullo_epi16(zero, factor), 8 - bits);
            const __m256i shift = _mm256_sub_epi16(_mm256_mullo_epi16(factor, middle), units);
            total = _mm256_add_epi32(total, _mm256_madd_epi16(values, shift));
        }
        w += COLIBRI_DOT_PLANES_A8_ROWS * 4 * bits;
    }
    /* Rows 0 and 2 meet in the lower half, 1 and 3 in the upper. */
    const __m256i both = _mm256_hadd_epi32(total, total);
    _mm_storeu_si128((void *)sum, _mm_unpacklo_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

#endif
