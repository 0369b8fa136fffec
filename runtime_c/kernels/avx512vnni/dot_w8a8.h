/* dot_w8a8.h: 16 rows of an 8-bit matrix times 8-bit activations, exactly, AVX-512 VNNI.
 *
 * A lane is a row. vpdpbusd wants one unsigned factor: w x = (w + 128) x - 128 x. Modulo 2^32 what is in between may
 * overflow.
 * Packing: [k / 4][16][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * 127 * k < 2^31. Weights are fetched ahead, beyond the
 * matrix's end too, which no processor minds.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <immintrin.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 16
#define COLIBRI_DOT_W8A8_INPUTS 8

/* The line that lies so many bytes further begins to come from memory; as a number, since it may lie beyond the matrix. */
static inline void colibri_fetch_w8a8(const uint8_t *w, int ahead)
{
    _mm_prefetch((const char *)((uintptr_t)w + (uintptr_t)ahead), _MM_HINT_T0);
}

/* total plus (w + 128) x of 4 columns. */
static inline __m512i colibri_add_w8a8(__m512i total, __m512i shifted, const int8_t *x)
{
    return _mm512_dpbusd_epi32(total, shifted, _mm512_broadcastd_epi32(_mm_loadu_si32(x)));
}

/* -128 times the sum of x, in every lane. */
static inline __m512i colibri_excess_w8a8(const int8_t *x, int k)
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
    return _mm512_set1_epi32(-_mm512_reduce_add_epi32(total));
}

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    const __m512i shift = _mm512_set1_epi8(-128);
    __m512i total = colibri_excess_w8a8(x, k);
    __m512i other = _mm512_setzero_si512();
    int i = 0;
    for (; i + 8 <= k; i += 8) {
        const __m512i rows = _mm512_loadu_si512(w);
        const __m512i next = _mm512_loadu_si512(w + 64);
        colibri_fetch_w8a8(w, 2048);
        colibri_fetch_w8a8(w + 64, 2048);
        total = colibri_add_w8a8(total, _mm512_xor_si512(rows, shift), x + i);
        other = colibri_add_w8a8(other, _mm512_xor_si512(next, shift), x + i + 4);
        w += 8 * COLIBRI_DOT_W8A8_ROWS;
    }
    if (i < k) {
        total = colibri_add_w8a8(total, _mm512_xor_si512(_mm512_loadu_si512(w), shift), x + i);
    }
    _mm512_storeu_si512(sum, _mm512_add_epi32(total, other));
}

/* The same for 8 inputs, whose sums follow each other. */
static inline void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                           const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                           int k)
{
    const __m512i shift = _mm512_set1_epi8(-128);
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    const int8_t *const x4 = x[4];
    const int8_t *const x5 = x[5];
    const int8_t *const x6 = x[6];
    const int8_t *const x7 = x[7];
    __m512i total0 = colibri_excess_w8a8(x0, k);
    __m512i total1 = colibri_excess_w8a8(x1, k);
    __m512i total2 = colibri_excess_w8a8(x2, k);
    __m512i total3 = colibri_excess_w8a8(x3, k);
    __m512i total4 = colibri_excess_w8a8(x4, k);
    __m512i total5 = colibri_excess_w8a8(x5, k);
    __m512i total6 = colibri_excess_w8a8(x6, k);
    __m512i total7 = colibri_excess_w8a8(x7, k);
    for (int i = 0; i < k; i += 4) {
        const __m512i shifted = _mm512_xor_si512(_mm512_loadu_si512(w), shift);
        colibri_fetch_w8a8(w, COLIBRI_DOT_W8A8_ROWS * k); /* of the next tile */
        total0 = colibri_add_w8a8(total0, shifted, x0 + i);
        total1 = colibri_add_w8a8(total1, shifted, x1 + i);
        total2 = colibri_add_w8a8(total2, shifted, x2 + i);
        total3 = colibri_add_w8a8(total3, shifted, x3 + i);
        total4 = colibri_add_w8a8(total4, shifted, x4 + i);
        total5 = colibri_add_w8a8(total5, shifted, x5 + i);
        total6 = colibri_add_w8a8(total6, shifted, x6 + i);
        total7 = colibri_add_w8a8(total7, shifted, x7 + i);
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm512_storeu_si512(sum, total0);
    _mm512_storeu_si512(sum + 16, total1);
    _mm512_storeu_si512(sum + 32, total2);
    _mm512_storeu_si512(sum + 48, total3);
    _mm512_storeu_si512(sum + 64, total4);
    _mm512_storeu_si512(sum + 80, total5);
    _mm512_storeu_si512(sum + 96, total6);
    _mm512_storeu_si512(sum + 112, total7);
}

#endif
