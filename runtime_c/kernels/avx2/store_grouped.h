/* store_grouped.h: scales, bias and store of sums of a matrix in groups, AVX2; see linear.h.
 */
#ifndef COLIBRI_STORE_GROUPED_H
#define COLIBRI_STORE_GROUPED_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

/* An fp32 value by its upper 16 bits. */
static inline float colibri_from_upper(uint16_t upper)
{
    return colibri_from_bits((int32_t)((uint32_t)upper << 16));
}

/* The first live of 8 integers as fp32, zeros behind them. */
COLIBRI_INSIDE __m256 colibri_sums_8(const int32_t *restrict sum, uint32_t live)
{
    return _mm256_cvtepi32_ps(_mm256_castps_si256(colibri_load_some((const void *)sum, live)));
}

/* The first live of 8 scales by their upper 16 bits, zeros behind them. */
COLIBRI_INSIDE __m256 colibri_upper_8(const uint16_t *restrict upper, uint32_t live)
{
    uint16_t some[8] = {0};
    if (live < 8) {
        for (uint32_t i = 0; i < live; i++) {
            some[i] = upper[i];
        }
        upper = some;
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)upper)), 16));
}

/* y = values + bias for the first live rows of 8. */
COLIBRI_INSIDE void colibri_store_8(float *restrict y, __m256 values, const float *restrict bias, uint32_t live)
{
    if (bias != NULL) {
        values = _mm256_add_ps(values, colibri_load_some(bias, live));
    }
    colibri_store_some(y, values, live);
}

COLIBRI_INSIDE void colibri_store_grouped(float *restrict y, const int32_t *restrict sum,
                                          const uint16_t *restrict row_scale, const float *restrict bias, float x_scale,
                                          int count)
{
    const __m256 scale = _mm256_set1_ps(x_scale);
    for (int i = 0; i < count; i += 8) {
        const uint32_t live = (uint32_t)(count - i);
        const __m256 values = _mm256_mul_ps(colibri_sums_8(sum + i, live), colibri_upper_8(row_scale + i, live));
        colibri_store_8(y + i, _mm256_mul_ps(values, scale), bias != NULL ? bias + i : NULL, live);
    }
}

#endif
