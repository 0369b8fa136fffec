/* dot_w8a8.h: 16 rows of an 8-bit matrix times 8-bit activations, exactly, AVX2.
 *
 * A 32-bit lane is a row. vpmaddubsw wants one unsigned factor: w x = (w with the sign of x) |x|. Its 16-bit sums of two
 * products cannot saturate, since |w|, |x| <= 127: 2 * 127 * 127 < 2^15.
 * Packing: [k / 4][16][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order. Weights are fetched ahead, beyond the matrix's end too, which
 * no processor minds.
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

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    __m256i total0 = _mm256_setzero_si256();
    __m256i total1 = _mm256_setzero_si256();
    for (int i = 0; i < k; i += 4) {
        const __m256i values = colibri_four_w8a8(x + i);
        const __m256i magnitudes = _mm256_abs_epi8(values);
        const __m256i rows0 = _mm256_loadu_si256((const void *)w);
        const __m256i rows1 = _mm256_loadu_si256((const void *)(w + 32));
        colibri_fetch_w8a8(w, 2048);
        total0 = colibri_add_w8a8(total0, magnitudes, _mm256_sign_epi8(rows0, values));
        total1 = colibri_add_w8a8(total1, magnitudes, _mm256_sign_epi8(rows1, values));
        w += 4 * COLIBRI_DOT_W8A8_ROWS;
    }
    _mm256_storeu_si256((void *)sum, total0);
    _mm256_storeu_si256((void *)(sum + 8), total1);
}

/* The same for 8 inputs, whose sums follow each other. Here w has the magnitude, which serves all inputs. */
static inline void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                           const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                           int k)
{
    for (int half = 0; half < COLIBRI_DOT_W8A8_ROWS; half += 8) {
        __m256i total0 = _mm256_setzero_si256();
        __m256i total1 = _mm256_setzero_si256();
        __m256i total2 = _mm256_setzero_si256();
        __m256i total3 = _mm256_setzero_si256();
        __m256i total4 = _mm256_setzero_si256();
        __m256i total5 = _mm256_setzero_si256();
        __m256i total6 = _mm256_setzero_si256();
        __m256i total7 = _mm256_setzero_si256();
        const int8_t *const x0 = x[0];
        const int8_t *const x1 = x[1];
        const int8_t *const x2 = x[2];
        const int8_t *const x3 = x[3];
        const int8_t *const x4 = x[4];
        const int8_t *const x5 = x[5];
        const int8_t *const x6 = x[6];
        const int8_t *const x7 = x[7];
        const uint8_t *at = w + 4 * half;
        for (int i = 0; i < k; i += 4) {
            const __m256i rows = _mm256_loadu_si256((const void *)at);
            if (half == 0) {
                colibri_fetch_w8a8(at, COLIBRI_DOT_W8A8_ROWS * k); /* of the next tile */
            }
            const __m256i magnitudes = _mm256_abs_epi8(rows);
            total0 = colibri_add_w8a8(total0, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x0 + i), rows));
            total1 = colibri_add_w8a8(total1, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x1 + i), rows));
            total2 = colibri_add_w8a8(total2, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x2 + i), rows));
            total3 = colibri_add_w8a8(total3, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x3 + i), rows));
            total4 = colibri_add_w8a8(total4, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x4 + i), rows));
            total5 = colibri_add_w8a8(total5, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x5 + i), rows));
            total6 = colibri_add_w8a8(total6, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x6 + i), rows));
            total7 = colibri_add_w8a8(total7, magnitudes, _mm256_sign_epi8(colibri_four_w8a8(x7 + i), rows));
            at += 4 * COLIBRI_DOT_W8A8_ROWS;
        }
        _mm256_storeu_si256((void *)(sum + half), total0);
        _mm256_storeu_si256((void *)(sum + half + 16), total1);
        _mm256_storeu_si256((void *)(sum + half + 32), total2);
        _mm256_storeu_si256((void *)(sum + half + 48), total3);
        _mm256_storeu_si256((void *)(sum + half + 64), total4);
        _mm256_storeu_si256((void *)(sum + half + 80), total5);
        _mm256_storeu_si256((void *)(sum + half + 96), total6);
        _mm256_storeu_si256((void *)(sum + half + 112), total7);
    }
}

#endif
