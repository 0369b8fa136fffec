/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * A register holds the same group of two rows. Nibbles are used as they lie, 0 to 15, and 8 times the activations
 * is taken off: (q - 8) x = q x - 8 x. The 16-bit sums are of four products of at most 15 * 127 and cannot saturate;
 * vpmaddwd multiplies them by the group's scale.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31. Weights are
 * fetched ahead.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4
#define COLIBRI_DOT_W4A8_INPUTS 4

/* total plus a group's 32 products of two rows; scales: theirs, as 16-bit values in the row's half. */
static inline __m256i colibri_add_w4a8(__m256i total, const uint8_t *w, __m256i scales, __m256i first, __m256i second,
                                       __m256i excess)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
    const __m256i part = _mm256_add_epi16(_mm256_maddubs_epi16(low, first), _mm256_maddubs_epi16(high, second));
    return _mm256_add_epi32(total, _mm256_madd_epi16(_mm256_sub_epi16(part, excess), scales));
}

/* Sums of 4 rows; rows 0 and 2 meet in the lower half, 1 and 3 in the upper. */
static inline void colibri_rows_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], __m256i total01, __m256i total23)
{
    __m256i both = _mm256_hadd_epi32(total01, total23);
    both = _mm256_hadd_epi32(both, both);
    _mm_storeu_si128((void *)sum, _mm_unpacklo_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
}

COLIBRI_INSIDE void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const __m256i eight = _mm256_set1_epi8(8);
    /* Picks the 16-bit values 0 and 1, or 2 and 3, for the lower and the upper half. */
    const __m256i rows01 = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
    const __m256i rows23 = _mm256_setr_m128i(_mm_set1_epi16(0x0504), _mm_set1_epi16(0x0706));
    __m256i total01 = _mm256_setzero_si256();
    __m256i total23 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        colibri_fetch_line(w);
        const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i)));
        const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + i + 16)));
        const __m256i excess =
            _mm256_add_epi16(_mm256_maddubs_epi16(eight, first), _mm256_maddubs_epi16(eight, second));
        const __m256i scales = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_loadu_si32(factors)));
        total01 = colibri_add_w4a8(total01, w, _mm256_shuffle_epi8(scales, rows01), first, second, excess);
        total23 = colibri_add_w4a8(total23, w + 32, _mm256_shuffle_epi8(scales, rows23), first, second, excess);
        factors += COLIBRI_DOT_W4A8_ROWS;
        w += 64;
    }
    colibri_rows_w4a8(sum, total01, total23);
}

/* What is to know of 4 inputs at once, told by colibri_dot_w4a8_facts: [k / 32][input] sums of a group, in both halves.
 * In each of the 8 sums of 16 bits of a row it is an eighth of the excess. */
#define COLIBRI_DOT_W4A8_FACTS(k) ((k) / 32 * COLIBRI_DOT_W4A8_INPUTS)

COLIBRI_SHARED void colibri_dot_w4a8_facts(int32_t *restrict facts, const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                           int k)
{
    for (int i = 0; i < k; i += 32) {
        for (int input = 0; input < COLIBRI_DOT_W4A8_INPUTS; input++) {
            int32_t own = 0;
            for (int j = 0; j < 32; j++) {
                own += x[input][i + j];
            }
            *facts = (int32_t)(((uint32_t)own & 0xFFFF) * 0x10001);
            facts++;
        }
    }
}

/* A group of two rows, as all inputs want it. */
typedef struct colibri_group_w4a8 {
    __m256i low;
    __m256i high;
    __m256i scales;
} colibri_group_w4a8;

static inline colibri_group_w4a8 colibri_open_w4a8(const uint8_t *w, __m256i scales)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)w);
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
    return (colibri_group_w4a8){_mm256_and_si256(bytes, mask), high, scales};
}

/* Adds one input's products. The sum is done before the next begins: gcc would begin all, and have too few registers. */
static inline void colibri_meet_w4a8(__m256i *total, colibri_group_w4a8 group, const int8_t *x, const int32_t *fact)
{
    const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)x));
    const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + 16)));
    const __m256i part =
        _mm256_add_epi16(_mm256_maddubs_epi16(group.low, first), _mm256_maddubs_epi16(group.high, second));
    const __m256i middle = _mm256_sub_epi16(part, _mm256_set1_epi32(*fact));
    *total = _mm256_add_epi32(*total, _mm256_madd_epi16(middle, group.scales));
    __asm__("" : "+x"(*total));
}

/* The same for 4 inputs, whose sums follow each other. */
COLIBRI_SHARED void colibri_dot_w4a8_inputs(int32_t sum[COLIBRI_DOT_W4A8_INPUTS * COLIBRI_DOT_W4A8_ROWS],
                                            const uint8_t *restrict w, const uint8_t *restrict factors,
                                            const int8_t *const x[COLIBRI_DOT_W4A8_INPUTS],
                                            const int32_t *restrict facts, int k)
{
    const __m256i rows01 = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
    const __m256i rows23 = _mm256_setr_m128i(_mm_set1_epi16(0x0504), _mm_set1_epi16(0x0706));
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    __m256i total001 = _mm256_setzero_si256();
    __m256i total023 = _mm256_setzero_si256();
    __m256i total101 = _mm256_setzero_si256();
    __m256i total123 = _mm256_setzero_si256();
    __m256i total201 = _mm256_setzero_si256();
    __m256i total223 = _mm256_setzero_si256();
    __m256i total301 = _mm256_setzero_si256();
    __m256i total323 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 32) {
        colibri_fetch(w, 2 * k); /* of the next tile */
        const __m256i scales = _mm256_broadcastq_epi64(_mm_cvtepi8_epi16(_mm_loadu_si32(factors)));
        colibri_group_w4a8 group = colibri_open_w4a8(w, _mm256_shuffle_epi8(scales, rows01));
        colibri_meet_w4a8(&total001, group, x0 + i, facts);
        colibri_meet_w4a8(&total101, group, x1 + i, facts + 1);
        colibri_meet_w4a8(&total201, group, x2 + i, facts + 2);
        colibri_meet_w4a8(&total301, group, x3 + i, facts + 3);
        group = colibri_open_w4a8(w + 32, _mm256_shuffle_epi8(scales, rows23));
        colibri_meet_w4a8(&total023, group, x0 + i, facts);
        colibri_meet_w4a8(&total123, group, x1 + i, facts + 1);
        colibri_meet_w4a8(&total223, group, x2 + i, facts + 2);
        colibri_meet_w4a8(&total323, group, x3 + i, facts + 3);
        factors += COLIBRI_DOT_W4A8_ROWS;
        facts += COLIBRI_DOT_W4A8_INPUTS;
        w += 64;
    }
    colibri_rows_w4a8(sum, total001, total023);
    colibri_rows_w4a8(sum + 4, total101, total123);
    colibri_rows_w4a8(sum + 8, total201, total223);
    colibri_rows_w4a8(sum + 12, total301, total323);
}

#endif
