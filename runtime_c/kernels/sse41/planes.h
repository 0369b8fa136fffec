/* planes.h: 32 columns of a row of integers of 2 to 6 bits, SSE4.1.
 *
 * Packing, portable/planes.h: [plane][4 rows][4 * bits of the plane] bytes.
 */
#ifndef COLIBRI_SSE41_PLANES_H
#define COLIBRI_SSE41_PLANES_H

#include <smmintrin.h>
#include <stdint.h>
#include "kernels/portable/planes.h"
#include "kernels/portable/shared.h"

/* Byte c of each holds the bits of column c in its lower half, and those of column c + 16 in its upper. */
typedef struct colibri_planes {
    __m128i low;
    __m128i high;
} colibri_planes;

/* A row's plane of 2 bits: byte c has columns c, c + 8, c + 16 and c + 24. */
static inline __m128i colibri_load_pairs(const uint8_t *w)
{
    const __m128i bytes = _mm_loadl_epi64((const void *)w);
    return _mm_unpacklo_epi64(bytes, _mm_srli_epi16(bytes, 2));
}

/* A row's plane of 1 bit: byte c has columns c, c + 4, ... */
static inline __m128i colibri_load_singles(const uint8_t *w)
{
    const __m128i bytes = _mm_loadu_si32(w);
    const __m128i twice = _mm_unpacklo_epi32(bytes, _mm_srli_epi16(bytes, 1));
    return _mm_unpacklo_epi64(twice, _mm_srli_epi16(twice, 2));
}

COLIBRI_INSIDE colibri_planes colibri_load_planes(const uint8_t *w, int row, int bits)
{
    colibri_planes planes = {.high = _mm_setzero_si128()};
    planes.low = bits >= 4 ? _mm_loadu_si128((const void *)(w + 16 * row)) : colibri_load_pairs(w + 8 * row);
    if (bits == 6) {
        planes.high = colibri_load_pairs(w + 64 + 8 * row);
    } else if (bits == 5) {
        planes.high = colibri_load_singles(w + 64 + 4 * row);
    } else if (bits == 3) {
        planes.high = colibri_load_singles(w + 32 + 4 * row);
    }
    return planes;
}

/* Columns 16 * half to 16 * half + 15, one in each byte. */
COLIBRI_INSIDE __m128i colibri_sixteen(colibri_planes planes, int half, int bits)
{
    const __m128i low = _mm_and_si128(_mm_srli_epi16(planes.low, 4 * half), _mm_set1_epi8(bits >= 4 ? 15 : 3));
    if (bits == 2 || bits == 4) {
        return low;
    }
    const __m128i high = _mm_and_si128(_mm_srli_epi16(planes.high, 4 * half), _mm_set1_epi8(bits == 6 ? 3 : 1));
    return _mm_or_si128(low, _mm_slli_epi16(high, bits == 3 ? 2 : 4));
}

#endif
