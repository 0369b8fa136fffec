/* experts.h: add an expert's output with its weight, AVX2; the first expert's is assigned.
 */
#ifndef COLIBRI_EXPERTS_H
#define COLIBRI_EXPERTS_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"
#include "kernels/portable/slots.h"

static inline void colibri_combine(float *restrict out, const float *restrict x, float weight, bool first, int width)
{
    const __m256 weights = _mm256_set1_ps(weight);
    for (int i = 0; i < width; i += 8) {
        const uint32_t live = (uint32_t)(width - i);
        __m256 term = _mm256_mul_ps(weights, colibri_load_some(x + i, live));
        if (!first) {
            term = _mm256_add_ps(colibri_load_some(out + i, live), term);
        }
        colibri_store_some(out + i, term, live);
    }
}

#endif
