/* dot_planes_a8.h: 4 rows of a matrix of 2 to 6 bits times 8-bit activations, exactly, SSE4.1.
 *
 * Integers are used as they lie, q, and 2^(bits - 1) times the activations is taken off. The 16-bit sums are of four
 * products of at most 63 * 127 and cannot saturate; pmaddwd multiplies them by the group's factor.
 * Packing, portable/planes.h: [k / 32][plane][4 rows][4 * bits of the plane] bytes, 16-byte aligned at the matrix's
 * start. factors, zeros (or NULL): [groups][4]. bits and group (32, 64 or 128) are constants. x: k values, k a multiple
 * of 32, zero padded; |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A8_H
#define COLIBRI_DOT_PLANES_A8_H

#include <stddef.h>
#include "kernels/portable/shared.h"
#include "kernels/sse41/planes.h"

#define COLIBRI_DOT_PLANES_A8_ROWS 4

COLIBRI_INSIDE void colibri_dot_planes_a8(int32_t sum[COLIBRI_DOT_PLANES_A8_ROWS], const uint8_t *restrict w,
                                          const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                          const int8_t *restrict x, int k, int bits, int group)
{
    const __m128i ones = _mm_set1_epi8(1);
    __m128i totals[COLIBRI_DOT_PLANES_A8_ROWS] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(),
                                                  _mm_setzero_si128()};
    for (int i = 0; i < k; i += 32) {
        const __m128i first = _mm_loadu_si128((const void *)(x + i));
        const __m128i second = _mm_loadu_si128((const void *)(x + i + 16));
        const __m128i values = _mm_add_epi16(_mm_maddubs_epi16(ones, first), _mm_maddubs_epi16(ones, second));
        const __m128i excess = _mm_slli_epi16(values, bits - 1);
        const int at = i / group * COLIBRI_DOT_PLANES_A8_ROWS;
        const __m128i factor = _mm_cvtepi8_epi16(_mm_loadu_si32(factors + at));
        __m128i shift = _mm_setzero_si128(); /* times the activations, what is added for a zero point */
        if (zeros != NULL) {
            const __m128i zero = _mm_cvtepu8_epi16(_mm_loadu_si32(zeros + at));
            const __m128i units = _mm_srai_epi16(_mm_mullo_epi16(zero, factor), 8 - bits);
            shift = _mm_sub_epi16(_mm_slli_epi16(factor, bits - 1), units);
        }
        for (int row = 0; row < COLIBRI_DOT_PLANES_A8_ROWS; row++) {
            const __m128i copies = _mm_set1_epi16((int16_t)(0x0100 + 0x0202 * row)); /* of the row's 16 bits */
            const colibri_planes planes = colibri_load_planes(w, row, bits);
            const __m128i part = _mm_add_epi16(_mm_maddubs_epi16(colibri_sixteen(planes, 0, bits), first),
                                               _mm_maddubs_epi16(colibri_sixteen(planes, 1, bits), second));
            totals[row] = _mm_add_epi32(totals[row],
                                        _mm_madd_epi16(_mm_sub_epi16(part, excess), _mm_shuffle_epi8(factor, copies)));
            if (zeros != NULL) {
                totals[row] = _mm_add_epi32(totals[row], _mm_madd_epi16(values, _mm_shuffle_epi8(shift, copies)));
            }
        }
        w += COLIBRI_DOT_PLANES_A8_ROWS * 4 * bits;
    }
    const __m128i rows01 = _mm_hadd_epi32(totals[0], totals[1]);
    _mm_storeu_si128((void *)sum, _mm_hadd_epi32(rows01, _mm_hadd_epi32(totals[2], totals[3])));
}

#endif
