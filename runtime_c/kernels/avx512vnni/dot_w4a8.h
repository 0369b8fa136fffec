/* dot_w4a8.h: 16 rows of a 4-bit matrix times 8-bit activations, exactly, AVX-512 VNNI.
 *
 * A lane is a row: four of its columns meet the same four activations in each row. Nibbles are used as they lie, 0 to 15,
 * and 8 times the activations is taken off, by group_sums.h: (q - 8) x = q x - 8 x. A row's sum of a group has 16 bits,
 * 32 * 8 * 127 < 2^15, so vpdpwssd multiplies it by the group's scale, whose other half is 0.
 * Packing, of the order "lanes": [k / 32][4][16][4] bytes, 16-byte aligned at the matrix's start; byte b of part p of a row
 * holds column 4 p + b of 32 in its low and column 4 p + b + 16 in its high half, each plus 8. factors: int8 [k / 32][16].
 * x: k values, k a multiple of 32, zero padded. sums: [k / 32]. |w| <= 8 * 127 and |x| <= qmax of the op, chosen
 * so that 8 * 127 * qmax * k < 2^31. Weights are fetched ahead.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/avx512vnni/group_sums.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 16
#define COLIBRI_DOT_W4A8_INPUTS 6

/* The scales of a group, each in the lower half of its row's lane, 0 above. */
static inline __m512i colibri_scales_w4a8(const uint8_t *factors)
{
    return _mm512_cvtepu16_epi32(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)factors)));
}

/* part plus the products of four weights of each row, of 0 to 15, with four values. */
static inline __m512i colibri_four_w4a8(__m512i part, __m512i weights, const int8_t *x)
{
    return _mm512_dpbusd_epi32(part, weights, _mm512_broadcastd_epi32(_mm_loadu_si32(x)));
}

/* part plus eight products of each row. */
static inline __m512i colibri_eight_w4a8(__m512i part, const uint8_t *w, const int8_t *x)
{
    const __m512i bytes = _mm512_loadu_si512(w);
    const __m512i mask = _mm512_set1_epi8(15);
    part = colibri_four_w4a8(part, _mm512_and_si512(bytes, mask), x);
    return colibri_four_w4a8(part, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask), x + 16);
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x,
                                     const int32_t *restrict sums, int k)
{
    __m512i total = _mm512_setzero_si512();
    for (int i = 0; i < k; i += 32) {
        colibri_fetch_ahead(w);
        __m512i part = _mm512_set1_epi32(*sums++);
        part = colibri_eight_w4a8(part, w, x + i);
        part = colibri_eight_w4a8(part, w + 64, x + i + 4);
        part = colibri_eight_w4a8(part, w + 128, x + i + 8);
        part = colibri_eight_w4a8(part, w + 192, x + i + 12);
        total = _mm512_dpwssd_epi32(total, part, colibri_scales_w4a8(factors));
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
    _mm512_storeu_si512(sum, total);
}

/* What is to know of 6 inputs at once, told by colibri_dot_w4a8_facts: the sums of their groups, [k / 32][6]. */
#define COLIBRI_DOT_W4A8_FACTS(k) ((k) / 32 * COLIBRI_DOT_W4A8_INPUTS)

COLIBRI_SHARED void colibri_dot_w4a8_facts(int32_t *restrict facts, const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                           int k)
{
    for (int i = 0; i < k; i += 32) {
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            *facts++ = colibri_sum_group(x[input] + i);
        }
    }
}

/* Adds eight products of each row and input. Sums stay in their registers: gcc would copy each at every step. */
static inline void colibri_meet_w4a8(__m512i part[COLIBRI_DOT_W4A8_INPUTS], const uint8_t *w,
                                     const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS], int i)
{
    const __m512i bytes = _mm512_loadu_si512(w);
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_and_si512(bytes, mask);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
#pragma GCC unroll 6
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        part[input] = colibri_four_w4a8(part[input], low, x[input] + i);
        part[input] = colibri_four_w4a8(part[input], high, x[input] + i + 16);
        __asm__("" : "+v"(part[input]));
    }
}

/* The same for 6 inputs, whose sums follow each other. This is one call of so many with the tile. */
COLIBRI_SHARED void colibri_dot_w4a8_inputs(int32_t sum[COLIBRI_DOT_W4A8_INPUTS * COLIBRI_DOT_W4A8_ROWS],
                                            const uint8_t *restrict w, const uint8_t *restrict factors,
                                            const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                            const int32_t *restrict facts, int k, uint32_t call, uint32_t calls)
{
    colibri_next next = colibri_next_of(w, COLIBRI_DOT_W4A8_ROWS / 2 * k, call, calls);
    const int8_t *const own[COLIBRI_DOT_W4A8_INPUTS] = {x[0], x[1], x[2], x[3], x[4], x[5]};
    __m512i total[COLIBRI_DOT_W4A8_INPUTS];
#pragma GCC unroll 6
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        total[input] = _mm512_setzero_si512();
    }
    for (int i = 0; i < k; i += 32) {
        __m512i part[COLIBRI_DOT_W4A8_INPUTS];
#pragma GCC unroll 6
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            part[input] = _mm512_set1_epi32(facts[input]);
        }
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {
            colibri_fetch_next(&next);
            colibri_meet_w4a8(part, w + 64 * step, own, i + 4 * step);
        }
        const __m512i scales = colibri_scales_w4a8(factors);
#pragma GCC unroll 6
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            total[input] = _mm512_dpwssd_epi32(total[input], part[input], scales);
            __asm__("" : "+v"(total[input]));
        }
        factors += COLIBRI_DOT_W4A8_ROWS;
        facts += COLIBRI_DOT_W4A8_INPUTS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
#pragma GCC unroll 6
    for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
        _mm512_storeu_si512(sum + input * COLIBRI_DOT_W4A8_ROWS, total[input]);
    }
}

#endif
