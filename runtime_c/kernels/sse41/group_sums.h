/* group_sums.h: -8 times the sums of every 32 activations: what weights that have 8 added multiply too much. SSSE3.
 *
 * Two sums of 16 bits in each word: in its lower half of activations 0 and 1 of every four, in its upper half of 2 and 3,
 * as pmaddubsw adds them. x: k values, k a multiple of 32, zero padded; |x| <= 127. sums: [k / 32].
 */
#ifndef COLIBRI_GROUP_SUMS_H
#define COLIBRI_GROUP_SUMS_H

#include <stdint.h>
#include <tmmintrin.h>
#include "kernels/portable/shared.h"

/* The sums of 32 values, in every word. */
static inline __m128i colibri_sum_group(const int8_t *x)
{
    const __m128i eight = _mm_set1_epi8(8);
    __m128i sum = _mm_add_epi16(_mm_maddubs_epi16(eight, _mm_loadu_si128((const void *)x)),
                                _mm_maddubs_epi16(eight, _mm_loadu_si128((const void *)(x + 16))));
    sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0xB1));
    return _mm_sub_epi16(_mm_setzero_si128(), sum);
}

COLIBRI_SHARED void colibri_sum_groups(int32_t *restrict sums, const int8_t *restrict x, int k)
{
    for (int i = 0; i < k; i += 32) {
        *sums++ = _mm_cvtsi128_si32(colibri_sum_group(x + i));
    }
}

#endif
