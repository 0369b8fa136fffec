/* dot_f32.h: 16 rows of an fp32 matrix times one vector, AVX2.
 *
 * A lane is a row, so each row keeps its one accumulator, added in ascending column; a product is rounded before
 * it is added (no FMA). Two registers, since each addition waits for the one before.
 * Packing: [k][16] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include <immintrin.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_F32_ROWS 16

COLIBRI_INSIDE void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                    int k)
{
    __m256 total0 = _mm256_setzero_ps();
    __m256 total1 = _mm256_setzero_ps();
    for (int i = 0; i < k; i++) {
        const __m256 value = _mm256_set1_ps(x[i]);
        total0 = _mm256_add_ps(total0, _mm256_mul_ps(value, _mm256_loadu_ps(w)));
        total1 = _mm256_add_ps(total1, _mm256_mul_ps(value, _mm256_loadu_ps(w + 8)));
        w += COLIBRI_DOT_F32_ROWS;
    }
    _mm256_storeu_ps(sum, total0);
    _mm256_storeu_ps(sum + 8, total1);
}

#endif
