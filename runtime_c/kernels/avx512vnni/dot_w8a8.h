/* dot_w8a8.h: 32 rows of an 8-bit matrix times 8-bit activations, exactly, AVX-512 VNNI.
 *
 * A lane is a row. vpdpbusd wants one unsigned factor: w x = (w + 128) x - 128 x. Modulo 2^32 what is in between may
 * overflow.
 * Packing: [k / 4][32][4] bytes, each a weight plus 128, 16-byte aligned at the matrix's start. x: k values, k a multiple
 * of 4, zero padded. |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * 127 * k < 2^31. Weights are fetched
 * ahead.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 32
#define COLIBRI_DOT_W8A8_INPUTS 6

/* Four values of x in every lane. */
static inline __m512i colibri_four_w8a8(const int8_t *x)
{
    return _mm512_broadcastd_epi32(_mm_loadu_si32(x));
}

/* Adds 4 products of all rows, and 128 times the values to what is in excess. */
COLIBRI_INSIDE void colibri_step_w8a8(__m512i *total0, __m512i *total1, __m512i *excess, const uint8_t *w,
                                      const int8_t *x)
{
    const __m512i values = colibri_four_w8a8(x);
    colibri_fetch_line(w);
    colibri_fetch_line(w + 64);
    *total0 = _mm512_dpbusd_epi32(*total0, _mm512_loadu_si512(w), values);
    *total1 = _mm512_dpbusd_epi32(*total1, _mm512_loadu_si512(w + 64), values);
    *excess = _mm512_dpbusd_epi32(*excess, _mm512_set1_epi8(-128), values); /* unsigned 128 */
}

/* Two sums of each row, since one alone would wait for itself. */
COLIBRI_INSIDE void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                     const int8_t *restrict x, int k)
{
    __m512i even0 = _mm512_setzero_si512();
    __m512i even1 = even0;
    __m512i even_excess = even0;
    __m512i odd0 = even0;
    __m512i odd1 = even0;
    __m512i odd_excess = even0;
    int i = 0;
    for (; i + 8 <= k; i += 8) {
        colibri_step_w8a8(&even0, &even1, &even_excess, w, x + i);
        colibri_step_w8a8(&odd0, &odd1, &odd_excess, w + 4 * COLIBRI_DOT_W8A8_ROWS, x + i + 4);
        w += 8 * COLIBRI_DOT_W8A8_ROWS;
    }
    if (i < k) {
        colibri_step_w8a8(&even0, &even1, &even_excess, w, x + i);
    }
    const __m512i excess = _mm512_add_epi32(even_excess, odd_excess);
    _mm512_storeu_si512(sum, _mm512_sub_epi32(_mm512_add_epi32(even0, odd0), excess));
    _mm512_storeu_si512(sum + 16, _mm512_sub_epi32(_mm512_add_epi32(even1, odd1), excess));
}

/* -128 times the sum of x. */
static inline int32_t colibri_excess_w8a8(const int8_t *x, int k)
{
    const __m512i shift = _mm512_set1_epi8(-128); /* unsigned 128 */
    __m512i total = _mm512_setzero_si512();
    int i = 0;
    for (; i + 64 <= k; i += 64) {
        total = _mm512_dpbusd_epi32(total, shift, _mm512_loadu_si512(x + i));
    }
    if (i < k) {
        const __mmask64 live = ((__mmask64)1 << (k - i)) - 1;
        total = _mm512_dpbusd_epi32(total, shift, _mm512_maskz_loadu_epi8(live, x + i));
    }
    const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(total), _mm512_extracti64x4_epi64(total, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(_mm_sub_epi32(_mm_setzero_si128(), four));
}

/* What is to know of several inputs at once, told by colibri_dot_w8a8_facts: -128 times the sum of each. */
#define COLIBRI_DOT_W8A8_FACTS(k) COLIBRI_DOT_W8A8_INPUTS

COLIBRI_SHARED void colibri_dot_w8a8_facts(int32_t facts[COLIBRI_DOT_W8A8_INPUTS],
                                           const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS], int k)
{
    for (int input = 0; input < COLIBRI_DOT_W8A8_INPUTS; input++) {
        facts[input] = colibri_excess_w8a8(x[input], k);
    }
}

/* Adds 4 products of both 16 rows. The sums stay in their registers: gcc would copy each at every step. */
static inline void colibri_both_w8a8(__m512i *total0, __m512i *total1, __m512i rows0, __m512i rows1, const int8_t *x)
{
    const __m512i values = colibri_four_w8a8(x);
    *total0 = _mm512_dpbusd_epi32(*total0, rows0, values);
    *total1 = _mm512_dpbusd_epi32(*total1, rows1, values);
    __asm__("" : "+v"(*total0), "+v"(*total1));
}

/* The same for 6 inputs, whose sums follow each other. This is one call of so many with the tile. */
COLIBRI_SHARED void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                            const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                            const int32_t facts[COLIBRI_DOT_W8A8_INPUTS], int k, uint32_t call,
                                            uint32_t calls)
{
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    const int8_t *const x4 = x[4];
    const int8_t *const x5 = x[5];
    __m512i total00 = _mm512_set1_epi32(facts[0]);
    __m512i total10 = _mm512_set1_epi32(facts[1]);
    __m512i total20 = _mm512_set1_epi32(facts[2]);
    __m512i total30 = _mm512_set1_epi32(facts[3]);
    __m512i total40 = _mm512_set1_epi32(facts[4]);
    __m512i total50 = _mm512_set1_epi32(facts[5]);
    __m512i total01 = total00;
    __m512i total11 = total10;
    __m512i total21 = total20;
    __m512i total31 = total30;
    __m512i total41 = total40;
    __m512i total51 = total50;
    colibri_next next = colibri_next_of(w, COLIBRI_DOT_W8A8_ROWS * k, call, calls);
    for (int i = 0; i < k; i += 4) {
        const __m512i rows0 = _mm512_loadu_si512(w);
        const __m512i rows1 = _mm512_loadu_si512(w + 64);
        colibri_fetch_next(&next);
        colibri_fetch_next(&next);
        colibri_both_w8a8(&total00, &total01, rows0, rows1, x0 + i);
        colibri_both_w8a8(&total10, &total11, rows0, rows1, x1 + i);
        colibri_both_w8a8(&total20, &total21, rows0, rows1, x2 + i);
        colibri_both_w8a8(&total30, &total31, rows0, rows1, x3 + i);
        colibri_both_w8a8(&total40, &total41, rows0, rows1, x4 + i);
        colibri_both_w8a8(&total50, &total51, rows0, rows1, x5 + i);
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm512_storeu_si512(sum, total00);
    _mm512_storeu_si512(sum + 16, total01);
    _mm512_storeu_si512(sum + 32, total10);
    _mm512_storeu_si512(sum + 48, total11);
    _mm512_storeu_si512(sum + 64, total20);
    _mm512_storeu_si512(sum + 80, total21);
    _mm512_storeu_si512(sum + 96, total30);
    _mm512_storeu_si512(sum + 112, total31);
    _mm512_storeu_si512(sum + 128, total40);
    _mm512_storeu_si512(sum + 144, total41);
    _mm512_storeu_si512(sum + 160, total50);
    _mm512_storeu_si512(sum + 176, total51);
}

#endif
