/* powers.h: sums of groups times powers of two, added in 64 bits, SSE4.1.
 */
#ifndef COLIBRI_SSE41_POWERS_H
#define COLIBRI_SSE41_POWERS_H

#include <smmintrin.h>
#include <stdint.h>

/* Sums of four rows. */
typedef struct colibri_powers {
    __m128i rows02;
    __m128i rows13;
} colibri_powers;

/* total plus parts times 2 to the exponents, of four rows; pmuldq takes the lower half of 64 bits. */
static inline colibri_powers colibri_add_powers(colibri_powers total, __m128i parts, const uint8_t *exponents)
{
    const __m128i exponent = _mm_cvtepu8_epi32(_mm_loadu_si32(exponents));
    /* As bits of a float, which is then converted. */
    const __m128i bits = _mm_slli_epi32(_mm_add_epi32(exponent, _mm_set1_epi32(127)), 23);
    const __m128i powers = _mm_cvttps_epi32(_mm_castsi128_ps(bits));
    total.rows02 = _mm_add_epi64(total.rows02, _mm_mul_epi32(parts, powers));
    total.rows13 =
        _mm_add_epi64(total.rows13, _mm_mul_epi32(_mm_srli_epi64(parts, 32), _mm_srli_epi64(powers, 32)));
    return total;
}

static inline void colibri_store_powers(int64_t *sum, colibri_powers total)
{
    _mm_storeu_si128((void *)sum, _mm_unpacklo_epi64(total.rows02, total.rows13));
    _mm_storeu_si128((void *)(sum + 2), _mm_unpackhi_epi64(total.rows02, total.rows13));
}

#endif
