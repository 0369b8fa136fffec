/* dot_w4a8.h: 8 rows of a 4-bit matrix times 8-bit activations, exactly, AVX-512 VNNI.
 *
 * A register holds the same group of four rows, four lanes each. Nibbles are used as they lie, 0 to 15, and 8 times the
 * activations is taken off: (q - 8) x = q x - 8 x. A lane's sum of a group is of eight products and has 16 bits, so
 * vpdpwssd multiplies it by the group's scale, whose other half is 0.
 * Packing: [k / 32][8][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][8]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31. Weights are fetched ahead.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 8
#define COLIBRI_DOT_W4A8_INPUTS 4

/* 16 values of x for each row. */
static inline __m512i colibri_values_w4a8(const int8_t *x)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)x));
}

/* A group of four rows: nibbles of the columns below 16 and above, and the scale in the lower half of each lane. */
typedef struct colibri_group_w4a8 {
    __m512i low;
    __m512i high;
    __m512i scales;
} colibri_group_w4a8;

/* first: of the rows whose group lies at w. */
static inline colibri_group_w4a8 colibri_open_w4a8(const uint8_t *w, const uint8_t *factors, int first)
{
    const __m512i rows = _mm512_set1_epi32(first);
    const __m512i lanes = _mm512_add_epi32(rows, _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    const __m128i scales = _mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)factors));
    const __m512i bytes = _mm512_loadu_si512(w);
    const __m512i mask = _mm512_set1_epi8(15);
    return (colibri_group_w4a8){_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask),
                                _mm512_maskz_permutexvar_epi16(0x55555555, lanes, _mm512_castsi128_si512(scales))};
}

/* Products of a group, added to what is there. */
static inline __m512i colibri_part_w4a8(__m512i part, colibri_group_w4a8 group, __m512i first, __m512i second)
{
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(part, group.low, first), group.high, second);
}

/* Sums of 8 rows, from four lanes of each. */
static inline void colibri_rows_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], __m512i total0, __m512i total1)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i both = _mm512_add_epi32(_mm512_unpacklo_epi32(total0, total1), _mm512_unpackhi_epi32(total0, total1));
    both = _mm512_add_epi32(both, _mm512_shuffle_epi32(both, _MM_PERM_BADC));
    _mm256_storeu_si256((void *)sum, _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, both)));
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i eight = _mm512_set1_epi8(8);
    __m512i total0 = zero;
    __m512i total1 = zero;
    for (int i = 0; i < k; i += 32) {
        colibri_fetch_line(w);
        colibri_fetch_line(w + 64);
        const __m512i first = colibri_values_w4a8(x + i);
        const __m512i second = colibri_values_w4a8(x + i + 16);
        const __m512i excess = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, eight, first), eight, second);
        const colibri_group_w4a8 group0 = colibri_open_w4a8(w, factors, 0);
        const colibri_group_w4a8 group1 = colibri_open_w4a8(w + 64, factors, 4);
        const __m512i part0 = _mm512_sub_epi32(colibri_part_w4a8(zero, group0, first, second), excess);
        const __m512i part1 = _mm512_sub_epi32(colibri_part_w4a8(zero, group1, first, second), excess);
        total0 = _mm512_dpwssd_epi32(total0, part0, group0.scales);
        total1 = _mm512_dpwssd_epi32(total1, part1, group1.scales);
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
    colibri_rows_w4a8(sum, total0, total1);
}

/* What is to know of 4 inputs at once, told by colibri_dot_w4a8_facts: [k / 32][input] sums of a group, times -2. A row has
 * four lanes, and each begins with that: together they are the excess. */
#define COLIBRI_DOT_W4A8_FACTS(k) ((k) / 32 * COLIBRI_DOT_W4A8_INPUTS)

COLIBRI_SHARED void colibri_dot_w4a8_facts(int32_t *restrict facts, const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                           int k)
{
    const __m128i two = _mm_set1_epi8(2);
    for (int i = 0; i < k; i += 32) {
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            const __m128i *const values = (const void *)(x[input] + i);
            __m128i four = _mm_dpbusd_epi32(_mm_setzero_si128(), two, _mm_loadu_si128(values));
            four = _mm_dpbusd_epi32(four, two, _mm_loadu_si128(values + 1));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
            *facts = -_mm_cvtsi128_si32(four);
            facts++;
        }
    }
}

/* Adds one input's products with 8 rows. The sums are done before the next begin: gcc would begin all, and have too few
 * registers. */
static inline void colibri_meet_w4a8(__m512i *total0, __m512i *total1, colibri_group_w4a8 group0,
                                     colibri_group_w4a8 group1, const int8_t *x, const int32_t *fact)
{
    const __m512i first = colibri_values_w4a8(x);
    const __m512i second = colibri_values_w4a8(x + 16);
    const __m512i begin = _mm512_set1_epi32(*fact);
    *total0 = _mm512_dpwssd_epi32(*total0, colibri_part_w4a8(begin, group0, first, second), group0.scales);
    *total1 = _mm512_dpwssd_epi32(*total1, colibri_part_w4a8(begin, group1, first, second), group1.scales);
    __asm__("" : "+v"(*total0), "+v"(*total1));
}

/* The same for 4 inputs, whose sums follow each other. This is one call of so many with the tile. */
COLIBRI_SHARED void colibri_dot_w4a8_inputs(int32_t sum[COLIBRI_DOT_W4A8_INPUTS * COLIBRI_DOT_W4A8_ROWS],
                                            const uint8_t *restrict w, const uint8_t *restrict factors,
                                            const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                            const int32_t *restrict facts, int k, uint32_t call, uint32_t calls)
{
    colibri_next next = colibri_next_of(w, COLIBRI_DOT_W4A8_ROWS / 2 * k, call, calls);
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    __m512i total00 = _mm512_setzero_si512();
    __m512i total01 = total00;
    __m512i total10 = total00;
    __m512i total11 = total00;
    __m512i total20 = total00;
    __m512i total21 = total00;
    __m512i total30 = total00;
    __m512i total31 = total00;
    for (int i = 0; i < k; i += 32) {
        colibri_fetch_next(&next);
        colibri_fetch_next(&next);
        const colibri_group_w4a8 group0 = colibri_open_w4a8(w, factors, 0);
        const colibri_group_w4a8 group1 = colibri_open_w4a8(w + 64, factors, 4);
        colibri_meet_w4a8(&total00, &total01, group0, group1, x0 + i, facts);
        colibri_meet_w4a8(&total10, &total11, group0, group1, x1 + i, facts + 1);
        colibri_meet_w4a8(&total20, &total21, group0, group1, x2 + i, facts + 2);
        colibri_meet_w4a8(&total30, &total31, group0, group1, x3 + i, facts + 3);
        factors += COLIBRI_DOT_W4A8_ROWS;
        facts += COLIBRI_DOT_W4A8_INPUTS;
        w += 16 * COLIBRI_DOT_W4A8_ROWS;
    }
    colibri_rows_w4a8(sum, total00, total01);
    colibri_rows_w4a8(sum + 8, total10, total11);
    colibri_rows_w4a8(sum + 16, total20, total21);
    colibri_rows_w4a8(sum + 24, total30, total31);
}

#endif
