/* clip.h: x within -limit .. limit, elementwise, AVX2; NaN becomes -limit, as the second operand of a maximum.
 */
#ifndef COLIBRI_CLIP_H
#define COLIBRI_CLIP_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

static inline void colibri_clip(float *restrict x, float limit, int count)
{
    const __m256 least = _mm256_set1_ps(-limit);
    const __m256 most = _mm256_set1_ps(limit);
    for (int i = 0; i < count; i += 8) {
        const uint32_t live = (uint32_t)(count - i);
        const __m256 low = _mm256_max_ps(colibri_load_some(x + i, live), least);
        colibri_store_some(x + i, _mm256_min_ps(low, most), live);
    }
}

#endif
