/* add_weighted.h: x += sigmoid(score) * y, elementwise, AVX2.
 */
#ifndef COLIBRI_ADD_WEIGHTED_H
#define COLIBRI_ADD_WEIGHTED_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

static inline void colibri_add_weighted(float *restrict x, const float *restrict y, float score, int width)
{
    const __m256 weight = _mm256_set1_ps(colibri_sigmoid(score));
    for (int i = 0; i < width; i += 8) {
        const uint32_t live = (uint32_t)(width - i);
        const __m256 term = _mm256_mul_ps(weight, colibri_load_some(y + i, live));
        colibri_store_some(x + i, _mm256_add_ps(colibri_load_some(x + i, live), term), live);
    }
}

#endif
