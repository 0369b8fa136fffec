/* layer_norm.h: y = ((x - mean) * (1 / sqrt(mean((x - mean)^2) + eps))) * w + b, AVX2; both sums run in 8 strided
 * lanes, those of a register.
 */
#ifndef COLIBRI_LAYER_NORM_H
#define COLIBRI_LAYER_NORM_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

static inline void colibri_layer_norm(float *restrict y, const float *restrict x, const float *restrict w,
                                      const float *restrict b, int width, float eps)
{
    float lane[8];
    __m256 lanes = _mm256_setzero_ps();
    for (int i = 0; i < width; i += 8) {
        lanes = _mm256_add_ps(lanes, colibri_load_some(x + i, (uint32_t)(width - i)));
    }
    _mm256_storeu_ps(lane, lanes);
    const float mean = colibri_lane_tree(lane) / (float)width;
    const __m256 means = _mm256_set1_ps(mean);
    lanes = _mm256_setzero_ps();
    for (int i = 0; i < width; i += 8) {
        const uint32_t live = (uint32_t)(width - i);
        __m256 apart = _mm256_sub_ps(colibri_load_some(x + i, live), means);
        colibri_store_some(y + i, apart, live);
        if (live < 8) {
            apart = _mm256_and_ps(apart, colibri_live_lanes(live));
        }
        lanes = _mm256_add_ps(lanes, _mm256_mul_ps(apart, apart));
    }
    _mm256_storeu_ps(lane, lanes);
    const float factor = 1.0f / colibri_sqrt(colibri_lane_tree(lane) / (float)width + eps);
    const __m256 factors = _mm256_set1_ps(factor);
    for (int i = 0; i < width; i += 8) {
        const uint32_t live = (uint32_t)(width - i);
        const __m256 scaled = _mm256_mul_ps(colibri_load_some(y + i, live), factors);
        const __m256 weighted = _mm256_mul_ps(scaled, colibri_load_some(w + i, live));
        colibri_store_some(y + i, _mm256_add_ps(weighted, colibri_load_some(b + i, live)), live);
    }
}

#endif
