/* dot_w8a8.h: 16 rows of an 8-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * A 32-bit lane is a row. vpmaddubsw wants one unsigned factor: w x = (w with the sign of x) |x|. Its 16-bit sums of two
 * products cannot saturate, since |w|, |x| <= 127: 2 * 127 * 127 < 2^15.
 * Packing: [k / 4][16][4] bytes, each a weight plus 128, 16-byte aligned at the matrix's start. x: k values, k a multiple
 * of 4, zero padded. 127 * 127 * k < 2^31: no sum of w x overflows, in any order. Weights are fetched ahead.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/avx2/fetch.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 16
#define COLIBRI_DOT_W8A8_INPUTS 4

/* Four values of x in every lane. */
static inline __m256i colibri_four_w8a8(const int8_t *x)
{
    return _mm256_broadcastd_epi32(_mm_loadu_si32(x));
}

/* total plus 4 products of 8 rows; the first factor has no sign. */
static inline __m256i colibri_add_w8a8(__m256i total, __m256i magnitudes, __m256i values)
{
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, values);
    return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* 32 weights with their sign. */
static inline __m256i colibri_signed_w8a8(const uint8_t *w)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const void *)w), _mm256_set1_epi8(-128));
}

/* Adds 4 products of all rows. */
COLIBRI_INSIDE void colibri_step_w8a8(__m256i *total0, __m256i *total1, const uint8_t *w, const int8_t *x)
{
    const __m256i values = colibri_four_w8a8(x);
    const __m256i magnitudes = _mm256_abs_epi8(values);
    *total0 = colibri_add_w8a8(*total0, magnitudes, _mm256_sign_epi8(colibri_signed_w8a8(w), values));
    *total1 = colibri_add_w8a8(*total1, magnitudes, _mm256_sign_epi8(colibri_signed_w8a8(w + 32), values));
}

COLIBRI_INSIDE void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                     const int8_t *restrict x, int k)
{
    __m256i total0 = _mm256_setzero_si256();
    __m256i total1 = _mm256_setzero_si256();
    int i = 0;
    for (; i + 16 <= k; i += 16) {
        colibri_fetch_ahead(w);
        colibri_step_w8a8(&total0, &total1, w, x + i);
        colibri_step_w8a8(&total0, &total1, w + 64, x + i + 4);
        colibri_step_w8a8(&total0, &total1, w + 128, x + i + 8);
        colibri_step_w8a8(&total0, &total1, w + 192, x + i + 12);
        w += 16 * COLIBRI_DOT_W8A8_ROWS;
    }
    for (; i < k; i += 4) {
        colibri_step_w8a8(&total0, &total1, w, x + i);
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm256_storeu_si256((void *)sum, total0);
    _mm256_storeu_si256((void *)(sum + 8), total1);
}

/* What is to know of 4 inputs at once, told by colibri_dot_w8a8_facts. A pair of values is steep if magnitudes of one sign
 * add up to more than 128: times w + 128, which is at most 255, it may pass 16 bits. Its first value then is a part of
 * its own. facts: the sum of each input; of each how many quads (four values) have such parts; of each list of
 * COLIBRI_DOT_W8A8_STEEP(k) quads the column and the parts; then all inputs without the parts, [k / 4][4][4] int8. */
#define COLIBRI_DOT_W8A8_STEEP(k) ((k) / 32)
#define COLIBRI_DOT_W8A8_FLAT(k) (8 * (1 + COLIBRI_DOT_W8A8_STEEP(k)))
#define COLIBRI_DOT_W8A8_FACTS(k) (COLIBRI_DOT_W8A8_FLAT(k) + ((k) + 31) / 32 * 32)

/* The parts of 32 values; the sum of the values is added to total. */
static inline __m256i colibri_parts_w8a8(__m256i values, __m256i *total)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i up = _mm256_maddubs_epi16(_mm256_max_epi8(values, zero), one);
    const __m256i down = _mm256_maddubs_epi16(_mm256_max_epi8(_mm256_sub_epi8(zero, values), zero), one);
    *total = _mm256_add_epi32(*total, _mm256_madd_epi16(_mm256_sub_epi16(up, down), _mm256_set1_epi16(1)));
    const __m256i steep = _mm256_cmpgt_epi16(_mm256_max_epi16(up, down), _mm256_set1_epi16(128));
    return _mm256_and_si256(values, _mm256_and_si256(steep, _mm256_set1_epi16(0xFF)));
}

COLIBRI_SHARED void colibri_dot_w8a8_facts(int32_t *restrict facts, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                           int k)
{
    int32_t *const counts = facts + COLIBRI_DOT_W8A8_INPUTS;
    int32_t *flat = facts + COLIBRI_DOT_W8A8_FLAT(k);
    __m256i total[COLIBRI_DOT_W8A8_INPUTS];
    for (int input = 0; input < COLIBRI_DOT_W8A8_INPUTS; input++) {
        total[input] = _mm256_setzero_si256();
        counts[input] = 0;
    }
    for (int i = 0; i < k; i += 32) {
        for (int input = 0; input < COLIBRI_DOT_W8A8_INPUTS; input++) {
            int8_t last[32] = {0};
            const int8_t *from = x[input] + i;
            if (i + 32 > k) {
                __builtin_memcpy(last, from, (size_t)(k - i));
                from = last;
            }
            const __m256i values = _mm256_loadu_si256((const void *)from);
            const __m256i parts = colibri_parts_w8a8(values, &total[input]);
            int32_t quads[8];
            _mm256_storeu_si256((void *)quads, _mm256_sub_epi8(values, parts));
            for (int quad = 0; quad < 8; quad++) {
                flat[quad * COLIBRI_DOT_W8A8_INPUTS + input] = quads[quad];
            }
            const __m256i whole = _mm256_cmpeq_epi32(parts, _mm256_setzero_si256());
            uint32_t bits = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(whole)) & 0xFF;
            if (bits != 0) {
                int32_t *list = facts + 2 * COLIBRI_DOT_W8A8_INPUTS + input * 2 * COLIBRI_DOT_W8A8_STEEP(k);
                _mm256_storeu_si256((void *)quads, parts);
                for (; bits != 0; bits &= bits - 1) {
                    const int quad = __builtin_ctz(bits);
                    const int32_t number = counts[input]++;
                    if (number < COLIBRI_DOT_W8A8_STEEP(k)) {
                        list[2 * number] = i + 4 * quad;
                        list[2 * number + 1] = quads[quad];
                    }
                }
            }
        }
        flat += 8 * COLIBRI_DOT_W8A8_INPUTS;
    }
    for (int input = 0; input < COLIBRI_DOT_W8A8_INPUTS; input++) {
        __m128i four = _mm_add_epi32(_mm256_castsi256_si128(total[input]), _mm256_extracti128_si256(total[input], 1));
        four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
        four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
        facts[input] = _mm_cvtsi128_si32(four);
    }
}

/* Adds 4 products of both 8 rows. Each pair of sums is done before the next begins: gcc would begin all, and have too few
 * registers. */
static inline void colibri_both_w8a8(__m256i *total0, __m256i *total1, __m256i rows0, __m256i rows1, int32_t quad)
{
    const __m256i values = _mm256_set1_epi32(quad);
    *total0 = colibri_add_w8a8(*total0, rows0, values);
    *total1 = colibri_add_w8a8(*total1, rows1, values);
    __asm__("" : "+x"(*total0), "+x"(*total1));
}

/* The sums of one input, to which the products of its parts are added. */
COLIBRI_INSIDE void colibri_finish_w8a8(int32_t *restrict sum, __m256i total0, __m256i total1, const uint8_t *w,
                                        const int32_t *restrict list, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *tile = w + list[2 * i] * COLIBRI_DOT_W8A8_ROWS;
        const __m256i parts = _mm256_set1_epi32(list[2 * i + 1]);
        total0 = colibri_add_w8a8(total0, _mm256_loadu_si256((const void *)tile), parts);
        total1 = colibri_add_w8a8(total1, _mm256_loadu_si256((const void *)(tile + 32)), parts);
    }
    _mm256_storeu_si256((void *)sum, total0);
    _mm256_storeu_si256((void *)(sum + 8), total1);
}

/* The same for 4 inputs, whose sums follow each other. Here w + 128 serves as it lies, without a sign, and 128 times
 * the sum of x is taken off. This is one call of so many with the tile. */
COLIBRI_SHARED void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                            const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                            const int32_t *restrict facts, int k, uint32_t call, uint32_t calls)
{
    const int32_t *const counts = facts + COLIBRI_DOT_W8A8_INPUTS;
    const int most = COLIBRI_DOT_W8A8_STEEP(k);
    if (counts[0] > most || counts[1] > most || counts[2] > most || counts[3] > most) {
        for (int input = 0; input < COLIBRI_DOT_W8A8_INPUTS; input++) {
            colibri_dot_w8a8(sum + input * COLIBRI_DOT_W8A8_ROWS, w, x[input], k);
        }
        return;
    }
    __m256i total00 = _mm256_set1_epi32(-128 * facts[0]);
    __m256i total10 = _mm256_set1_epi32(-128 * facts[1]);
    __m256i total20 = _mm256_set1_epi32(-128 * facts[2]);
    __m256i total30 = _mm256_set1_epi32(-128 * facts[3]);
    __m256i total01 = total00;
    __m256i total11 = total10;
    __m256i total21 = total20;
    __m256i total31 = total30;
    colibri_next next = colibri_next_of(w, COLIBRI_DOT_W8A8_ROWS * k, call, calls);
    const uint8_t *at = w;
    const int32_t *flat = facts + COLIBRI_DOT_W8A8_FLAT(k);
    for (int i = 0; i < k; i += 4) {
        const __m256i rows0 = _mm256_loadu_si256((const void *)at);
        const __m256i rows1 = _mm256_loadu_si256((const void *)(at + 32));
        colibri_fetch_next(&next);
        colibri_both_w8a8(&total00, &total01, rows0, rows1, flat[0]);
        colibri_both_w8a8(&total10, &total11, rows0, rows1, flat[1]);
        colibri_both_w8a8(&total20, &total21, rows0, rows1, flat[2]);
        colibri_both_w8a8(&total30, &total31, rows0, rows1, flat[3]);
        at += 4 * COLIBRI_DOT_W8A8_ROWS;
        flat += COLIBRI_DOT_W8A8_INPUTS;
    }
    const int32_t *const list = counts + COLIBRI_DOT_W8A8_INPUTS;
    colibri_finish_w8a8(sum, total00, total01, w, list, counts[0]);
    colibri_finish_w8a8(sum + 16, total10, total11, w, list + 2 * most, counts[1]);
    colibri_finish_w8a8(sum + 32, total20, total21, w, list + 4 * most, counts[2]);
    colibri_finish_w8a8(sum + 48, total30, total31, w, list + 6 * most, counts[3]);
}

#endif
