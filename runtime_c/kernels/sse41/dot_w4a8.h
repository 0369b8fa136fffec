/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, SSE4.1.
 *
 * As avx2/dot_w4a8.h: a 32-bit lane is a row, whose halves add up 16 products of a group each, less 8 times the
 * activations; pmaddwd multiplies both by the group's scale.
 * Packing, of the order "lanes": [k / 32][4][8][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [k / 32][8].
 * x: k values, k a multiple of 32, zero padded. sums: [k / 32], see group_sums.h. |w| <= 8 * 127 and |x| <= qmax
 * of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"
#include "kernels/sse41/group_sums.h"

#define COLIBRI_DOT_W4A8_ROWS 8

/* part plus products of four rows: of low halves with first, of high ones with second. */
static inline __m128i colibri_eight_w4a8(__m128i part, const uint8_t *w, __m128i first, __m128i second)
{
    const __m128i bytes = _mm_loadu_si128((const void *)w);
    const __m128i mask = _mm_set1_epi8(15);
    part = _mm_add_epi16(part, _mm_maddubs_epi16(_mm_and_si128(bytes, mask), first));
    return _mm_add_epi16(part, _mm_maddubs_epi16(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask), second));
}

/* Columns 4 p to 4 p + 3 and those 16 further, of all rows; values of p for every lane. */
static inline void colibri_step_w4a8(__m128i *part0, __m128i *part1, const uint8_t *w, __m128i first, __m128i second)
{
    *part0 = colibri_eight_w4a8(*part0, w, first, second);
    *part1 = colibri_eight_w4a8(*part1, w + 16, first, second);
}

/* total plus the parts times the scales of four rows, of 16 bits each. */
static inline __m128i colibri_add_w4a8(__m128i total, __m128i part, __m128i scales)
{
    const __m128i both = _mm_unpacklo_epi16(scales, scales);
    return _mm_add_epi32(total, _mm_madd_epi16(part, both));
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x,
                                     const int32_t *restrict sums, int k)
{
    __m128i total0 = _mm_setzero_si128();
    __m128i total1 = _mm_setzero_si128();
    for (int i = 0; i < k; i += 32) {
        const __m128i first = _mm_loadu_si128((const void *)(x + i));
        const __m128i second = _mm_loadu_si128((const void *)(x + i + 16));
        __m128i part0 = _mm_set1_epi32(*sums++);
        __m128i part1 = part0;
        colibri_step_w4a8(&part0, &part1, w, _mm_shuffle_epi32(first, 0x00), _mm_shuffle_epi32(second, 0x00));
        colibri_step_w4a8(&part0, &part1, w + 32, _mm_shuffle_epi32(first, 0x55), _mm_shuffle_epi32(second, 0x55));
        colibri_step_w4a8(&part0, &part1, w + 64, _mm_shuffle_epi32(first, 0xAA), _mm_shuffle_epi32(second, 0xAA));
        colibri_step_w4a8(&part0, &part1, w + 96, _mm_shuffle_epi32(first, 0xFF), _mm_shuffle_epi32(second, 0xFF));
        const __m128i scales = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)factors));
        total0 = colibri_add_w4a8(total0, part0, scales);
        total1 = colibri_add_w4a8(total1, part1, _mm_srli_si128(scales, 8));
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
    _mm_storeu_si128((void *)sum, total0);
    _mm_storeu_si128((void *)(sum + 4), total1);
}

#endif
