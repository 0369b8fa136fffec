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
    return -_mm512_reduce_add_epi32(total);
}

COLIBRI_INSIDE void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                     const int8_t *restrict x, int k)
{
    __m512i total0 = _mm512_set1_epi32(colibri_excess_w8a8(x, k));
    __m512i total1 = total0;
    for (int i = 0; i < k; i += 4) {
        const __m512i values = colibri_four_w8a8(x + i);
        colibri_fetch_line(w);
        colibri_fetch_line(w + 64);
        total0 = _mm512_dpbusd_epi32(total0, _mm512_loadu_si512(w), values);
        total1 = _mm512_dpbusd_epi32(total1, _mm512_loadu_si512(w + 64), values);
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm512_storeu_si512(sum, total0);
    _mm512_storeu_si512(sum + 16, total1);
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

/* The same for 6 inputs, whose sums follow each other. */
COLIBRI_SHARED void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                            const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                            const int32_t facts[COLIBRI_DOT_W8A8_INPUTS], int k)
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
    for (int i = 0; i < k; i += 4) {
        const __m512i rows0 = _mm512_loadu_si512(w);
        const __m512i rows1 = _mm512_loadu_si512(w + 64);
        colibri_fetch_second(w, COLIBRI_DOT_W8A8_ROWS * k); /* of the next tile */
        colibri_fetch_second(w + 64, COLIBRI_DOT_W8A8_ROWS * k);
        const __m512i values0 = colibri_four_w8a8(x0 + i);
        total00 = _mm512_dpbusd_epi32(total00, rows0, values0);
        total01 = _mm512_dpbusd_epi32(total01, rows1, values0);
        const __m512i values1 = colibri_four_w8a8(x1 + i);
        total10 = _mm512_dpbusd_epi32(total10, rows0, values1);
        total11 = _mm512_dpbusd_epi32(total11, rows1, values1);
        const __m512i values2 = colibri_four_w8a8(x2 + i);
        total20 = _mm512_dpbusd_epi32(total20, rows0, values2);
        total21 = _mm512_dpbusd_epi32(total21, rows1, values2);
        const __m512i values3 = colibri_four_w8a8(x3 + i);
        total30 = _mm512_dpbusd_epi32(total30, rows0, values3);
        total31 = _mm512_dpbusd_epi32(total31, rows1, values3);
        const __m512i values4 = colibri_four_w8a8(x4 + i);
        total40 = _mm512_dpbusd_epi32(total40, rows0, values4);
        total41 = _mm512_dpbusd_epi32(total41, rows1, values4);
        const __m512i values5 = colibri_four_w8a8(x5 + i);
        total50 = _mm512_dpbusd_epi32(total50, rows0, values5);
        total51 = _mm512_dpbusd_epi32(total51, rows1, values5);
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
