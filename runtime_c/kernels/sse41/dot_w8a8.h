/* dot_w8a8.h: 16 rows of an 8-bit matrix times 8-bit activations, exactly, SSSE3.
 *
 * A 32-bit lane is a row. pmaddubsw wants one unsigned factor: w x = (w with the sign of x) |x|. Its 16-bit sums of two
 * products cannot saturate, since |w|, |x| <= 127: 2 * 127 * 127 < 2^15.
 * Packing: [k / 4][16][4] bytes, each a weight plus 128, 16-byte aligned at the matrix's start: more than this kernel
 * needs, but so one model.bin serves avx2, too. x: k values, k a multiple of 4, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>
#include <tmmintrin.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 16
#define COLIBRI_DOT_W8A8_INPUTS 8

/* Four values of x in every lane. */
static inline __m128i colibri_four_w8a8(const int8_t *x)
{
    return _mm_shuffle_epi32(_mm_loadu_si32(x), 0);
}

/* total plus 4 products of 4 rows; the first factor has no sign. */
static inline __m128i colibri_add_w8a8(__m128i total, __m128i magnitudes, __m128i values)
{
    const __m128i pairs = _mm_maddubs_epi16(magnitudes, values);
    return _mm_add_epi32(total, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

/* 16 weights with their sign. */
static inline __m128i colibri_signed_w8a8(const uint8_t *w)
{
    return _mm_xor_si128(_mm_loadu_si128((const void *)w), _mm_set1_epi8(-128));
}

COLIBRI_INSIDE void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                     const int8_t *restrict x, int k)
{
    __m128i total0 = _mm_setzero_si128();
    __m128i total1 = _mm_setzero_si128();
    __m128i total2 = _mm_setzero_si128();
    __m128i total3 = _mm_setzero_si128();
    for (int i = 0; i < k; i += 4) {
        const __m128i values = colibri_four_w8a8(x + i);
        const __m128i magnitudes = _mm_abs_epi8(values);
        const __m128i rows0 = colibri_signed_w8a8(w);
        const __m128i rows1 = colibri_signed_w8a8(w + 16);
        const __m128i rows2 = colibri_signed_w8a8(w + 32);
        const __m128i rows3 = colibri_signed_w8a8(w + 48);
        total0 = colibri_add_w8a8(total0, magnitudes, _mm_sign_epi8(rows0, values));
        total1 = colibri_add_w8a8(total1, magnitudes, _mm_sign_epi8(rows1, values));
        total2 = colibri_add_w8a8(total2, magnitudes, _mm_sign_epi8(rows2, values));
        total3 = colibri_add_w8a8(total3, magnitudes, _mm_sign_epi8(rows3, values));
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm_storeu_si128((void *)sum, total0);
    _mm_storeu_si128((void *)(sum + 4), total1);
    _mm_storeu_si128((void *)(sum + 8), total2);
    _mm_storeu_si128((void *)(sum + 12), total3);
}

/* The same for 8 inputs, whose sums follow each other. Here w has the magnitude, which serves all inputs. */
COLIBRI_SHARED void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                            const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                            int k)
{
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    const int8_t *const x4 = x[4];
    const int8_t *const x5 = x[5];
    const int8_t *const x6 = x[6];
    const int8_t *const x7 = x[7];
    for (int row = 0; row < COLIBRI_DOT_W8A8_ROWS; row += 4) {
        __m128i total0 = _mm_setzero_si128();
        __m128i total1 = _mm_setzero_si128();
        __m128i total2 = _mm_setzero_si128();
        __m128i total3 = _mm_setzero_si128();
        __m128i total4 = _mm_setzero_si128();
        __m128i total5 = _mm_setzero_si128();
        __m128i total6 = _mm_setzero_si128();
        __m128i total7 = _mm_setzero_si128();
        const uint8_t *at = w + 4 * row;
        for (int i = 0; i < k; i += 4) {
            const __m128i rows = colibri_signed_w8a8(at);
            const __m128i magnitudes = _mm_abs_epi8(rows);
            total0 = colibri_add_w8a8(total0, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x0 + i), rows));
            total1 = colibri_add_w8a8(total1, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x1 + i), rows));
            total2 = colibri_add_w8a8(total2, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x2 + i), rows));
            total3 = colibri_add_w8a8(total3, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x3 + i), rows));
            total4 = colibri_add_w8a8(total4, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x4 + i), rows));
            total5 = colibri_add_w8a8(total5, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x5 + i), rows));
            total6 = colibri_add_w8a8(total6, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x6 + i), rows));
            total7 = colibri_add_w8a8(total7, magnitudes, _mm_sign_epi8(colibri_four_w8a8(x7 + i), rows));
            at += 4 * COLIBRI_DOT_W8A8_ROWS;
        }
        _mm_storeu_si128((void *)(sum + row), total0);
        _mm_storeu_si128((void *)(sum + row + 16), total1);
        _mm_storeu_si128((void *)(sum + row + 32), total2);
        _mm_storeu_si128((void *)(sum + row + 48), total3);
        _mm_storeu_si128((void *)(sum + row + 64), total4);
        _mm_storeu_si128((void *)(sum + row + 80), total5);
        _mm_storeu_si128((void *)(sum + row + 96), total6);
        _mm_storeu_si128((void *)(sum + row + 112), total7);
    }
}

#endif
