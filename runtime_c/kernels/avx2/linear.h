/* linear.h: what follows a dot product: scales, bias, store; AVX2.
 *
 * As portable/linear.h, for eight rows at a time.
 */
#ifndef COLIBRI_LINEAR_H
#define COLIBRI_LINEAR_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"
#include "kernels/avx2/store_grouped.h"
#include "kernels/portable/store_wide.h"

COLIBRI_INSIDE void colibri_store_scaled(float *restrict y, const int32_t *restrict sum,
                                         const float *restrict row_scale, const float *restrict bias, float x_scale,
                                         int count)
{
    const __m256 scale = _mm256_set1_ps(x_scale);
    for (int i = 0; i < count; i += 8) {
        const uint32_t live = (uint32_t)(count - i);
        const __m256 values = _mm256_mul_ps(colibri_sums_8(sum + i, live), colibri_load_some(row_scale + i, live));
        colibri_store_8(y + i, _mm256_mul_ps(values, scale), bias != NULL ? bias + i : NULL, live);
    }
}

COLIBRI_INSIDE void colibri_store(float *restrict y, const float *restrict sum, const float *restrict bias, int count)
{
    for (int i = 0; i < count; i += 8) {
        const uint32_t live = (uint32_t)(count - i);
        colibri_store_8(y + i, colibri_load_some(sum + i, live), bias != NULL ? bias + i : NULL, live);
    }
}

#endif
