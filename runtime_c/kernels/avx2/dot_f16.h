/* dot_f16.h: 16 rows of a matrix of half precision times one vector of fp32, AVX2 and F16C.
 *
 * As dot_f32, of weights that became fp32, which is exact.
 * Packing: [k][16] fp16, none infinite or NaN, 16-byte aligned at the
 * matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F16_H
#define COLIBRI_DOT_F16_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_F16_ROWS 16

COLIBRI_INSIDE void colibri_dot_f16(float sum[COLIBRI_DOT_F16_ROWS], const uint16_t *restrict w,
                                    const float *restrict x, int k)
{
    __m256 total0 = _mm256_setzero_ps();
    __m256 total1 = _mm256_setzero_ps();
    for (int i = 0; i < k; i++) {
        const __m256 value = _mm256_set1_ps(x[i]);
        const __m256 rows0 = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w));
        const __m256 rows1 = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(w + 8)));
        total0 = _mm256_add_ps(total0, _mm256_mul_ps(value, rows0));
        total1 = _mm256_add_ps(total1, _mm256_mul_ps(value, rows1));
        w += COLIBRI_DOT_F16_ROWS;
    }
    _mm256_storeu_ps(sum, total0);
    _mm256_storeu_ps(sum + 8, total1);
}

#endif
