/* attention.h: one row of causal attention over key and value states, AVX2 and F16C.
 *
 * As portable/attention.h, whose 8 lanes are those of a register: scores of 8 positions come out of one tree, terms of
 * 8 positions are made at once, and a register of a head's output takes all positions before the next ones do.
 * q, k, v, out: fp32; states: [capacity][kv_heads * head_dim], fp32 or fp16; scores: [capacity].
 */
#ifndef COLIBRI_ATTENTION_H
#define COLIBRI_ATTENTION_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"

/* Elements of a state from at on; beyond live of them zeros. */
__attribute__((always_inline)) static inline __m256 colibri_elements(const void *state, uint32_t at, uint32_t live,
                                                                     bool half)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (!half) {
        const float *const own = (const float *)state + at;
        return live >= 8 ? _mm256_loadu_ps(own)
                         : _mm256_maskload_ps(own, _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)live), lanes));
    }
    const uint16_t *const own = (const uint16_t *)state + at;
    if (live >= 8) {
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)own));
    }
    uint16_t some[8] = {0};
    for (uint32_t i = 0; i < live; i++) {
        some[i] = own[i];
    }
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)some));
}

/* Products of a query with a key in 8 strided lanes. A lane is never -0, so zeros add nothing. */
__attribute__((always_inline)) static inline __m256 colibri_lanes(const float *query, const void *keys, uint32_t at,
                                                                  uint32_t head_dim, bool half)
{
    __m256 lanes = _mm256_setzero_ps();
    for (uint32_t d = 0; d < head_dim; d += 8) {
        const uint32_t live = head_dim - d;
        lanes = _mm256_add_ps(
            lanes, _mm256_mul_ps(colibri_elements(query, d, live, false), colibri_elements(keys, at + d, live, half)));
    }
    return lanes;
}

/* Lanes of two positions, the upper half added to the lower. */
static inline __m256 colibri_halves_added(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* The tree of 8 positions' lanes. */
static inline __m256 colibri_trees(const __m256 lanes[8])
{
    const __m256 p01 = colibri_halves_added(lanes[0], lanes[1]);
    const __m256 p23 = colibri_halves_added(lanes[2], lanes[3]);
    const __m256 p45 = colibri_halves_added(lanes[4], lanes[5]);
    const __m256 p67 = colibri_halves_added(lanes[6], lanes[7]);
    const __m256 low = _mm256_add_ps(_mm256_shuffle_ps(p01, p23, 0x44), _mm256_shuffle_ps(p01, p23, 0xEE));
    const __m256 high = _mm256_add_ps(_mm256_shuffle_ps(p45, p67, 0x44), _mm256_shuffle_ps(p45, p67, 0xEE));
    /* Positions 0, 2, 4, 6, 1, 3, 5, 7. */
    const __m256 sums = _mm256_add_ps(_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD));
    return _mm256_permutevar8x32_ps(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* colibri_exp of each lane. */
static inline __m256 colibri_exp_8(__m256 x)
{
    const __m256 live = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_GT_OQ);
    x = _mm256_min_ps(_mm256_and_ps(x, live), _mm256_set1_ps(88.0f));
    const __m256 round = _mm256_set1_ps(COLIBRI_ROUND);
    const __m256 t = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), round);
    const __m256i power = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(COLIBRI_ROUND_BITS - 127));
    const __m256 whole = _mm256_sub_ps(t, round);
    __m256 r = _mm256_sub_ps(x, _mm256_mul_ps(whole, _mm256_set1_ps(0x1.63p-1f)));
    r = _mm256_sub_ps(r, _mm256_mul_ps(whole, _mm256_set1_ps(-0x1.bd0106p-13f)));
    __m256 p = _mm256_set1_ps(1.0f / 720.0f);
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 120.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 24.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 6.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(0.5f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f));
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
    return _mm256_and_ps(p, live);
}

/* scores[count] = query . key * scale of the rows from keys on; returns the largest, or top. */
__attribute__((always_inline)) static inline float colibri_scores(float *restrict scores, const float *query,
                                                                  const void *keys, uint32_t at, uint32_t width,
                                                                  uint32_t head_dim, uint32_t count, float scale,
                                                                  float top, bool half)
{
    __m256 most = _mm256_set1_ps(top);
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 lanes[8];
        for (uint32_t j = 0; j < 8; j++) {
            lanes[j] = colibri_lanes(query, keys, at + j * width, head_dim, half);
        }
        const __m256 eight = _mm256_mul_ps(colibri_trees(lanes), _mm256_set1_ps(scale));
        most = _mm256_max_ps(eight, most); /* NaN is passed over */
        _mm256_storeu_ps(scores + i, eight);
        at += 8 * width;
    }
    float lane[8];
    _mm256_storeu_ps(lane, most);
    for (uint32_t j = 0; j < 8; j++) {
        top = colibri_choose(lane[j] > top, lane[j], top);
    }
    for (; i < count; i++) {
        _mm256_storeu_ps(lane, colibri_lanes(query, keys, at, head_dim, half));
        scores[i] = colibri_lane_tree(lane) * scale;
        top = colibri_choose(scores[i] > top, scores[i], top);
        at += width;
    }
    return top;
}

/* scores[count] become e^(score - top); returns their sum in 8 lanes by absolute position. */
static inline float colibri_terms(float *restrict scores, uint32_t first, uint32_t count, float top)
{
    const __m256 tops = _mm256_set1_ps(top);
    __m256 sums = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m256 terms = colibri_exp_8(_mm256_sub_ps(_mm256_loadu_ps(scores + i), tops));
        sums = _mm256_add_ps(sums, terms);
        _mm256_storeu_ps(scores + i, terms);
    }
    if (i < count) {
        const __m256i live = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)(count - i)),
                                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        __m256 terms = colibri_exp_8(_mm256_sub_ps(_mm256_maskload_ps(scores + i, live), tops));
        terms = _mm256_and_ps(terms, _mm256_castsi256_ps(live));
        sums = _mm256_add_ps(sums, terms);
        _mm256_maskstore_ps(scores + i, live, terms);
    }
    float lane[8];
    float turned[8];
    _mm256_storeu_ps(lane, sums);
    for (uint32_t j = 0; j < 8; j++) {
        turned[(first + j) & 7] = lane[j];
    }
    return colibri_lane_tree(turned);
}

/* totals plus terms times values, in the order of the rows, of up to 32 columns. */
__attribute__((always_inline)) static inline void colibri_weigh(__m256 totals[4], const float *restrict terms,
                                                                const void *values, uint32_t at, uint32_t width,
                                                                uint32_t columns, uint32_t count, bool half)
{
    __m256 total0 = totals[0];
    __m256 total1 = totals[1];
    __m256 total2 = totals[2];
    __m256 total3 = totals[3];
    for (uint32_t i = 0; i < count; i++) {
        const __m256 term = _mm256_set1_ps(terms[i]);
        total0 = _mm256_add_ps(total0, _mm256_mul_ps(term, colibri_elements(values, at, columns, half)));
        if (columns > 8) {
            total1 = _mm256_add_ps(total1, _mm256_mul_ps(term, colibri_elements(values, at + 8, columns - 8, half)));
        }
        if (columns > 16) {
            total2 = _mm256_add_ps(total2, _mm256_mul_ps(term, colibri_elements(values, at + 16, columns - 16, half)));
        }
        if (columns > 24) {
            total3 = _mm256_add_ps(total3, _mm256_mul_ps(term, colibri_elements(values, at + 24, columns - 24, half)));
        }
        at += width;
    }
    totals[0] = total0;
    totals[1] = total1;
    totals[2] = total2;
    totals[3] = total3;
}

/* The row's key and value are in the states. */
__attribute__((always_inline)) static inline void colibri_attend(float *restrict out, const float *restrict q,
                                                                 const void *keys, const void *values,
                                                                 float *restrict scores, const float *restrict sinks,
                                                                 uint32_t position, uint32_t heads, uint32_t kv_heads,
                                                                 uint32_t head_dim, uint32_t capacity, bool chunked,
                                                                 float scale, bool half)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t slot = position % capacity;
    const uint32_t first = chunked ? position - slot : position < capacity ? 0 : position - capacity + 1;
    const uint32_t count = position - first + 1;
    const uint32_t begin = first % capacity; /* the ring's rows from here to its end, then those from 0 on */
    const uint32_t before = count < capacity - begin ? count : capacity - begin;
    for (uint32_t head = 0; head < heads; head++) {
        const uint32_t column = head / (heads / kv_heads) * head_dim;
        const float *const query = q + head * head_dim;
        const uint32_t at = begin * width + column;
        float top = sinks != NULL ? sinks[head] : colibri_from_bits((int32_t)0xFF800000u);
        top = colibri_scores(scores, query, keys, at, width, head_dim, before, scale, top, half);
        top = colibri_scores(scores + before, query, keys, column, width, head_dim, count - before, scale, top, half);
        float sum = colibri_terms(scores, first, count, top);
        if (sinks != NULL) {
            sum = sum + colibri_exp(sinks[head] - top);
        }
        const float inverse = 1.0f / sum;
        for (uint32_t d = 0; d < head_dim; d += 32) {
            const uint32_t columns = head_dim - d;
            __m256 totals[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
            colibri_weigh(totals, scores, values, at + d, width, columns, before, half);
            colibri_weigh(totals, scores + before, values, column + d, width, columns, count - before, half);
            float total[32];
            for (uint32_t j = 0; j < 4; j++) {
                _mm256_storeu_ps(total + 8 * j, _mm256_mul_ps(totals[j], _mm256_set1_ps(inverse)));
            }
            for (uint32_t j = 0; j < 32 && j < columns; j++) {
                out[head * head_dim + d + j] = total[j];
            }
        }
    }
}

static inline void colibri_attention_f32(float *restrict out, const float *restrict q, const float *restrict k,
                                         const float *restrict v, float *restrict keys, float *restrict values,
                                         float *restrict scores, const float *restrict sinks, uint32_t position,
                                         uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
                                         bool chunked, float scale)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t slot = position % capacity;
    for (uint32_t i = 0; i < width; i++) {
        keys[slot * width + i] = k[i];
        values[slot * width + i] = v[i];
    }
    colibri_attend(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked, scale,
                   false);
}

static inline void colibri_attention_f16(float *restrict out, const float *restrict q, const float *restrict k,
                                         const float *restrict v, uint16_t *restrict keys, uint16_t *restrict values,
                                         float *restrict scores, const float *restrict sinks, uint32_t position,
                                         uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
                                         bool chunked, float scale)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t slot = position % capacity;
    for (uint32_t i = 0; i < width; i++) {
        keys[slot * width + i] = colibri_to_f16(k[i]);
        values[slot * width + i] = colibri_to_f16(v[i]);
    }
    colibri_attend(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked, scale,
                   true);
}

#endif
