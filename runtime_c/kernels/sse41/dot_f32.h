/* dot_f32.h: 16 rows of an fp32 matrix times one vector, SSE.
 *
 * A lane is a row, so each row keeps its one accumulator, added in ascending column; a product is rounded before
 * it is added.
 * Packing: [k][16] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include <xmmintrin.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_F32_ROWS 16

COLIBRI_INSIDE void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                    int k)
{
    __m128 total0 = _mm_setzero_ps();
    __m128 total1 = _mm_setzero_ps();
    __m128 total2 = _mm_setzero_ps();
    __m128 total3 = _mm_setzero_ps();
    for (int i = 0; i < k; i++) {
        const __m128 value = _mm_set1_ps(x[i]);
        total0 = _mm_add_ps(total0, _mm_mul_ps(value, _mm_loadu_ps(w)));
        total1 = _mm_add_ps(total1, _mm_mul_ps(value, _mm_loadu_ps(w + 4)));
        total2 = _mm_add_ps(total2, _mm_mul_ps(value, _mm_loadu_ps(w + 8)));
        total3 = _mm_add_ps(total3, _mm_mul_ps(value, _mm_loadu_ps(w + 12)));
        w += COLIBRI_DOT_F32_ROWS;
    }
    _mm_storeu_ps(sum, total0);
    _mm_storeu_ps(sum + 4, total1);
    _mm_storeu_ps(sum + 8, total2);
    _mm_storeu_ps(sum + 12, total3);
}

#endif
