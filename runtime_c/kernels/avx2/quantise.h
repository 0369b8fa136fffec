/* quantise.h: one row of activations to integers, with its scale, AVX2.
 *
 * As portable/quantise.h. Magnitudes are compared as integers, like which they are ordered; NaN counts as 0.
 */
#ifndef COLIBRI_QUANTISE_H
#define COLIBRI_QUANTISE_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

#define COLIBRI_QUIET 0x1p-100f

/* Elements of x from i on; beyond k zeros. */
COLIBRI_INSIDE __m256 colibri_elements_of(const float *x, int i, int k)
{
    return colibri_load_some(x + i, (uint32_t)(k - i));
}

/* The largest magnitude; NaN counts as 0. */
static inline float colibri_largest(const float *x, int k)
{
    const __m256i infinity = _mm256_set1_epi32(0x7F800000);
    __m256i top = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 8) {
        const __m256i bits =
            _mm256_and_si256(_mm256_castps_si256(colibri_elements_of(x, i, k)), _mm256_set1_epi32(0x7FFFFFFF));
        top = _mm256_max_epi32(top, _mm256_andnot_si256(_mm256_cmpgt_epi32(bits, infinity), bits));
    }
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return colibri_from_bits(_mm_cvtsi128_si32(four));
}

/* Eight of x * inverse as integers within +-qmax; NaN is -qmax. */
static inline __m256i colibri_integers(const float *x, int i, int k, float inverse, float qmax)
{
    __m256 scaled = _mm256_mul_ps(colibri_elements_of(x, i, k), _mm256_set1_ps(inverse));
    scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-qmax));
    scaled = _mm256_min_ps(scaled, _mm256_set1_ps(qmax));
    const __m256i rounded = _mm256_castps_si256(_mm256_add_ps(scaled, _mm256_set1_ps(COLIBRI_ROUND)));
    return _mm256_sub_epi32(rounded, _mm256_set1_epi32(COLIBRI_ROUND_BITS));
}

/* Sixteen integers as 16-bit ones, in order. */
static inline __m256i colibri_packed(const float *x, int i, int k, float inverse, float qmax)
{
    const __m256i low = colibri_integers(x, i, k, inverse, qmax);
    const __m256i high = i + 8 < k ? colibri_integers(x, i + 8, k, inverse, qmax) : _mm256_setzero_si256();
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
}

/* The same with the largest magnitude given, and no padding; returns the scale. */
static inline float colibri_quantise8_by(int8_t *restrict y, const float *restrict x, int k, float top, float qmax)
{
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    for (int i = 0; i < k; i += 16) {
        const __m256i words = colibri_packed(x, i, k, inverse, qmax);
        const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        if (i + 16 <= k) {
            _mm_storeu_si128((void *)(y + i), bytes);
        } else {
            int8_t some[16];
            _mm_storeu_si128((void *)some, bytes);
            __builtin_memcpy(y + i, some, (size_t)(k - i) * sizeof some[0]);
        }
    }
    return colibri_choose(live, top / qmax, 0.0f);
}

static inline void colibri_quantise8(int8_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                     int stride, float qmax)
{
    *scale = colibri_quantise8_by(y, x, k, colibri_largest(x, k), qmax);
    for (int i = k; i < stride; i++) {
        y[i] = 0;
    }
}

static inline void colibri_quantise16(int16_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                      int stride, float qmax)
{
    const float top = colibri_largest(x, k);
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    *scale = colibri_choose(live, top / qmax, 0.0f);
    for (int i = 0; i < k; i += 16) {
        const __m256i words = colibri_packed(x, i, k, inverse, qmax);
        if (i + 16 <= k) {
            _mm256_storeu_si256((void *)(y + i), words);
        } else {
            int16_t some[16];
            _mm256_storeu_si256((void *)some, words);
            __builtin_memcpy(y + i, some, (size_t)(k - i) * sizeof some[0]);
        }
    }
    for (int i = k; i < stride; i++) {
        y[i] = 0;
    }
}

#endif
