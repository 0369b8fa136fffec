/* add.h: x += y, elementwise, AVX2.
 */
#ifndef COLIBRI_ADD_H
#define COLIBRI_ADD_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

static inline void colibri_add(float *restrict x, const float *restrict y, int count)
{
    for (int i = 0; i < count; i += 8) {
        const uint32_t live = (uint32_t)(count - i);
        colibri_store_some(x + i, _mm256_add_ps(colibri_load_some(x + i, live), colibri_load_some(y + i, live)), live);
    }
}

#endif
