/* rms_norm.h: y = (x * (1 / sqrt(mean(x^2) + eps))) * w, AVX2; a register holds the 8 strided lanes of the sum.
 *
 * A lane is never -0, so zeros beyond the width add nothing to it.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include <immintrin.h>
#include "kernels/portable/float32.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    __m256 lanes = _mm256_setzero_ps();
    int i = 0;
    for (; i + 8 <= width; i += 8) {
        const __m256 values = _mm256_loadu_ps(x + i);
        lanes = _mm256_add_ps(lanes, _mm256_mul_ps(values, values));
    }
    float lane[8];
    _mm256_storeu_ps(lane, lanes);
    for (int j = i; j < width; j++) {
        lane[j & 7] += x[j] * x[j];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
    const __m256 factors = _mm256_set1_ps(factor);
    for (i = 0; i + 8 <= width; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), factors), _mm256_loadu_ps(w + i)));
    }
    for (; i < width; i++) {
        y[i] = (x[i] * factor) * w[i];
    }
}

#endif
