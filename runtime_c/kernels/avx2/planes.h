/* planes.h: 32 columns of four rows of integers of 2 to 6 bits, AVX2.
 *
 * A register holds 64 bits of each row, of rows 0, 2, 1 and 3 in this order.
 * Packing, portable/planes.h: [plane][4 rows][4 * bits of the plane] bytes.
 */
#ifndef COLIBRI_AVX2_PLANES_H
#define COLIBRI_AVX2_PLANES_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/planes.h"
#include "kernels/portable/shared.h"

typedef struct colibri_planes {
    __m256i low[2]; /* of 4 bits: columns 0 to 7 and 16 to 23, then the others; of 2 bits all in the first */
    __m256i high;
} colibri_planes;

/* A plane of 2 bits. */
static inline __m256i colibri_load_pairs(const uint8_t *w)
{
    return _mm256_permute4x64_epi64(_mm256_loadu_si256((const void *)w), 0xD8);
}

/* A plane of 1 bit, as if it had 2: each row's 32 bits, then the same one place down. */
static inline __m256i colibri_load_singles(const uint8_t *w)
{
    const __m256i rows = _mm256_cvtepu32_epi64(_mm_loadu_si128((const void *)w));
    const __m256i twice = _mm256_or_si256(rows, _mm256_slli_epi64(_mm256_srli_epi64(rows, 1), 32));
    return _mm256_permute4x64_epi64(twice, 0xD8);
}

COLIBRI_INSIDE colibri_planes colibri_load_planes(const uint8_t *w, int bits)
{
    colibri_planes planes = {.high = _mm256_setzero_si256()};
    if (bits >= 4) {
        const __m256i rows01 = _mm256_loadu_si256((const void *)w);
        const __m256i rows23 = _mm256_loadu_si256((const void *)(w + 32));
        planes.low[0] = _mm256_unpacklo_epi64(rows01, rows23);
        planes.low[1] = _mm256_unpackhi_epi64(rows01, rows23);
    } else {
        planes.low[0] = colibri_load_pairs(w);
        planes.low[1] = planes.low[0];
    }
    if (bits == 6) {
        planes.high = colibri_load_pairs(w + 64);
    } else if (bits == 5) {
        planes.high = colibri_load_singles(w + 64);
    } else if (bits == 3) {
        planes.high = colibri_load_singles(w + 32);
    }
    return planes;
}

/* Columns 8 * s to 8 * s + 7 of each row, one in each byte. */
COLIBRI_INSIDE __m256i colibri_eight(colibri_planes planes, int s, int bits)
{
    const __m256i low = bits >= 4
                            ? _mm256_and_si256(_mm256_srli_epi16(planes.low[s & 1], s / 2 * 4), _mm256_set1_epi8(15))
                            : _mm256_and_si256(_mm256_srli_epi16(planes.low[0], 2 * s), _mm256_set1_epi8(3));
    if (bits == 2 || bits == 4) {
        return low;
    }
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(planes.high, 2 * s), _mm256_set1_epi8(bits == 6 ? 3 : 1));
    return _mm256_or_si256(low, _mm256_slli_epi16(high, bits == 3 ? 2 : 4));
}

#endif
