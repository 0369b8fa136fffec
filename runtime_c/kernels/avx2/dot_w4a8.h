/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * A 32-bit lane is a row: four of its columns meet the same four activations in each row. Nibbles are used as they lie,
 * 0 to 15, and 8 times the activations is taken off, by group_sums.h: (q - 8) x = q x - 8 x. Each half of a lane adds up
 * 16 products of a group in 16 bits, which may overflow on the way but not at its end: 16 * 8 * 127 < 2^15; vpmaddwd
 * multiplies both by the group's scale.
 * Packing, of the order "lanes": [k / 32][4][8][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [k / 32][8].
 * x: k values, k a multiple of 32, zero padded. sums: [k / 32]. |w| <= 8 * 127 and |x| <= qmax of the op, chosen
 * so that 8 * 127 * qmax * k < 2^31. Weights are fetched ahead.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"
#include "kernels/sse41/group_sums.h"

#define COLIBRI_DOT_W4A8_ROWS 8
#define COLIBRI_DOT_W4A8_INPUTS 4

/* The scales of a group, in both halves of each row's lane. */
static inline __m256i colibri_scales_w4a8(const uint8_t *factors)
{
    const __m256i places = _mm256_setr_epi32(0x00800080, 0x01800180, 0x02800280, 0x03800380, 0x04800480, 0x05800580,
                                             0x06800680, 0x07800780); /* into the upper byte, 0 below */
    const __m256i bytes = _mm256_broadcastq_epi64(_mm_loadl_epi64((const void *)factors));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, places), 8);
}

/* part plus the products of four weights of each row, of 0 to 15, with four values. */
static inline __m256i colibri_four_w4a8(__m256i part, __m256i weights, const int8_t *x)
{
    return _mm256_add_epi16(part, _mm256_maddubs_epi16(weights, _mm256_broadcastd_epi32(_mm_loadu_si32(x))));
}

/* part plus eight products of each row. */
static inline __m256i colibri_eight_w4a8(__m256i part, const uint8_t *w, const int8_t *x)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i mask = _mm256_set1_epi8(15);
    part = colibri_four_w4a8(part, _mm256_and_si256(bytes, mask), x);
    return colibri_four_w4a8(part, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask), x + 16);
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x,
                                     const int32_t *restrict sums, int k)
{
    __m256i total = _mm256_setzero_si256();
#pragma GCC unroll 1
    for (int i = 0; i < k; i += 32) {
        if (i % 64 == 0) {
            colibri_fetch_ahead(w);
        }
        __m256i part = _mm256_set1_epi32(*sums++);
        part = colibri_eight_w4a8(part, w, x + i);
        part = colibri_eight_w4a8(part, w + 32, x + i + 4);
        part = colibri_eight_w4a8(part, w + 64, x + i + 8);
        part = colibri_eight_w4a8(part, w + 96, x + i + 12);
        total = _mm256_add_epi32(total, _mm256_madd_epi16(part, colibri_scales_w4a8(factors)));
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
    _mm256_storeu_si256((void *)sum, total);
}

/* What is to know of 4 inputs at once, told by colibri_dot_w4a8_facts: the sums of their groups, [k / 32][4]. */
#define COLIBRI_DOT_W4A8_FACTS(k) ((k) / 32 * COLIBRI_DOT_W4A8_INPUTS)

COLIBRI_SHARED void colibri_dot_w4a8_facts(int32_t *restrict facts, const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                           int k)
{
    for (int i = 0; i < k; i += 32) {
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            *facts++ = _mm_cvtsi128_si32(colibri_sum_group(x[input] + i));
        }
    }
}

/* Adds eight products of each row and input. Each pair of sums is done before the next begins: gcc would begin all, and
 * have too few registers. */
static inline void colibri_meet_w4a8(__m256i part[COLIBRI_DOT_W4A8_INPUTS], const uint8_t *w,
                                     const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS], int i)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i low = _mm256_and_si256(bytes, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
#pragma GCC unroll 4
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        part[input] = colibri_four_w4a8(part[input], low, x[input] + i);
        part[input] = colibri_four_w4a8(part[input], high, x[input] + i + 16);
        __asm__("" : "+x"(part[input]));
    }
}

/* The same for 4 inputs, whose sums follow each other. This is one call of so many with the tile. */
COLIBRI_SHARED void colibri_dot_w4a8_inputs(int32_t sum[COLIBRI_DOT_W4A8_INPUTS * COLIBRI_DOT_W4A8_ROWS],
                                            const uint8_t *restrict w, const uint8_t *restrict factors,
                                            const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                            const int32_t *restrict facts, int k, uint32_t call, uint32_t calls)
{
    colibri_next next = colibri_next_of(w, COLIBRI_DOT_W4A8_ROWS / 2 * k, call, calls);
    const int8_t *const own[COLIBRI_DOT_W4A8_INPUTS] = {x[0], x[1], x[2], x[3]};
    __m256i total[COLIBRI_DOT_W4A8_INPUTS];
#pragma GCC unroll 4
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        total[input] = _mm256_setzero_si256();
    }
    for (int i = 0; i < k; i += 32) {
        __m256i part[COLIBRI_DOT_W4A8_INPUTS];
        colibri_fetch_next(&next);
        colibri_fetch_next(&next);
#pragma GCC unroll 4
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            part[input] = _mm256_set1_epi32(facts[input]);
        }
        colibri_meet_w4a8(part, w, own, i);
        colibri_meet_w4a8(part, w + 32, own, i + 4);
        colibri_meet_w4a8(part, w + 64, own, i + 8);
        colibri_meet_w4a8(part, w + 96, own, i + 12);
        const __m256i scales = colibri_scales_w4a8(factors);
#pragma GCC unroll 4
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            total[input] = _mm256_add_epi32(total[input], _mm256_madd_epi16(part[input], scales));
        }
        factors += COLIBRI_DOT_W4A8_ROWS;
        facts += COLIBRI_DOT_W4A8_INPUTS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
#pragma GCC unroll 4
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        _mm256_storeu_si256((void *)(sum + input * COLIBRI_DOT_W4A8_ROWS), total[input]);
    }
}

#endif
