/* attention.h: one row of causal attention over key and value states, AVX2 and F16C.
 *
 * As portable/attention.h, whose 8 lanes are those of a register. Scores of 8 positions come out of one tree, and their
 * terms are made at once; a register of a head's output takes all positions before the next ones do.
 * q, k, v, out: fp32; states: [capacity][kv_heads * head_dim], fp32 or fp16; scores: [capacity]. Nothing outside a row
 * is read, whatever head_dim.
 */
#ifndef COLIBRI_ATTENTION_H
#define COLIBRI_ATTENTION_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"

/* Where an element of a state lies. */
COLIBRI_INSIDE const void *colibri_element_at(const void *state, size_t at, bool half)
{
    return half ? (const void *)((const uint16_t *)state + at) : (const void *)((const float *)state + at);
}

/* Elements of a state from at on; beyond live of them zeros. */
COLIBRI_INSIDE __m256 colibri_elements(const void *state, size_t at, uint32_t live, bool half)
{
    const void *from = colibri_element_at(state, at, half);
    return half ? colibri_load_halves(from, live) : colibri_load_some(from, live);
}

/* lanes[i] = or += products of eight elements of the query, or of the last live ones, with those of row i. */
COLIBRI_INSIDE void colibri_products(__m256 lanes[8], const float *query, const void *const rows[8], size_t d,
                                     uint32_t live, bool half)
{
    const __m256 part = colibri_load_some(query + d, live);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 8; i++) {
        const __m256 product = _mm256_mul_ps(part, colibri_elements(rows[i], d, live, half));
        lanes[i] = d == 0 ? product : _mm256_add_ps(lanes[i], product);
    }
}

/* Products of the query with the keys of 8 rows. A lane may be -0 where one that began at 0 is +0: no term differs. */
COLIBRI_INSIDE __m256 colibri_query_keys(const float *query, const void *const rows[8], uint32_t head_dim, bool half)
{
    __m256 lanes[8];
    colibri_products(lanes, query, rows, 0, head_dim, half);
    size_t d = 8;
    for (; d + 8 <= head_dim; d += 8) {
        colibri_products(lanes, query, rows, d, 8, half);
    }
    if (d < head_dim) {
        colibri_products(lanes, query, rows, d, head_dim - (uint32_t)d, half);
    }
    return colibri_lane_trees(lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]);
}

/* totals += terms * values, in the order of the rows, of 8 * registers columns, the last of which has live ones. */
COLIBRI_INSIDE void colibri_weigh(__m256 totals[8], const float *restrict terms, const void *values, size_t at,
                                  uint32_t width, uint32_t count, uint32_t registers, uint32_t live, bool half)
{
    for (uint32_t i = 0; i < count; i++) {
        const __m256 term = _mm256_broadcast_ss(terms + i);
#pragma GCC unroll 8
        for (uint32_t j = 0; j < registers; j++) {
            const __m256 value = colibri_elements(values, at + 8 * j, j + 1 == registers ? live : 8, half);
            totals[j] = _mm256_add_ps(totals[j], _mm256_mul_ps(term, value));
        }
        at += width;
    }
}

/* Of a state's ring: its first row in reach, how many rows there are until its end, and how many in all. */
typedef struct colibri_reach {
    uint32_t begin;
    uint32_t before;
    uint32_t count;
} colibri_reach;

/* 8 * registers columns of a head's output from the d-th on. */
COLIBRI_INSIDE void colibri_mean(float *restrict out, const float *restrict terms, const void *values, uint32_t column,
                                 uint32_t width, colibri_reach reach, uint32_t registers, uint32_t live, float inverse,
                                 bool half)
{
    __m256 totals[8];
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; j++) {
        totals[j] = _mm256_setzero_ps();
    }
    const size_t begin = (size_t)reach.begin * width + column;
    colibri_weigh(totals, terms, values, begin, width, reach.before, registers, live, half);
    colibri_weigh(totals, terms + reach.before, values, column, width, reach.count - reach.before, registers, live,
                  half);
    const __m256 factor = _mm256_set1_ps(inverse);
#pragma GCC unroll 8
    for (uint32_t j = 0; j < registers; j++) {
        colibri_store_some(out + 8 * j, _mm256_mul_ps(totals[j], factor), j + 1 == registers ? live : 8);
    }
}

/* One head: scores become terms, and out their mean of the values. */
COLIBRI_INSIDE void colibri_attend(float *restrict out, const float *query, const void *keys, const void *values,
                                   float *restrict scores, const float *sink, uint32_t first, colibri_reach reach,
                                   uint32_t column, uint32_t width, uint32_t capacity, uint32_t head_dim, float scale,
                                   bool half)
{
    const uint32_t whole = reach.count & ~7u;
    const uint32_t live = reach.count & 7;
    const __m256 scales = _mm256_set1_ps(scale);
    const __m256 lowest = _mm256_set1_ps(colibri_from_bits((int32_t)0xFF800000u));
    __m256 most = sink != NULL ? _mm256_set1_ps(*sink) : lowest;
    uint32_t row = reach.begin;
    for (uint32_t i = 0; i < whole; i += 8) {
        const void *rows[8];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t some = row + j < capacity ? row + j : row + j - capacity;
            rows[j] = colibri_element_at(keys, (size_t)some * width + column, half);
        }
        const __m256 eight = _mm256_mul_ps(colibri_query_keys(query, rows, head_dim, half), scales);
        most = _mm256_max_ps(eight, most); /* NaN is passed over */
        _mm256_storeu_ps(scores + i, eight);
        row = row + 8 < capacity ? row + 8 : row + 8 - capacity;
    }
    __m256 last = lowest; /* terms of 0 */
    if (live > 0) {
        const void *rows[8];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t some = row + (j < live ? j : 0);
            const size_t from = some < capacity ? some : some - capacity;
            rows[j] = colibri_element_at(keys, from * width + column, half);
        }
        last = _mm256_mul_ps(colibri_query_keys(query, rows, head_dim, half), scales);
        last = _mm256_blendv_ps(lowest, last, colibri_live_lanes(live));
        most = _mm256_max_ps(last, most);
    }

    most = _mm256_max_ps(_mm256_permute2f128_ps(most, most, 0x01), most);
    most = _mm256_max_ps(_mm256_permute_ps(most, 0x4E), most);
    most = _mm256_max_ps(_mm256_permute_ps(most, 0xB1), most);

    __m256 sums = _mm256_setzero_ps();
    for (uint32_t i = 0; i < whole; i += 8) {
        const __m256 terms = colibri_exp_8(_mm256_sub_ps(_mm256_loadu_ps(scores + i), most));
        sums = _mm256_add_ps(sums, terms);
        _mm256_storeu_ps(scores + i, terms);
    }
    if (live > 0) {
        const __m256 terms = colibri_exp_8(_mm256_sub_ps(last, most));
        sums = _mm256_add_ps(sums, terms);
        colibri_store_some(scores + whole, terms, live);
    }
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); /* by absolute position */
    const __m256i turn = _mm256_sub_epi32(lanes, _mm256_set1_epi32((int32_t)(first & 7)));
    float lane[8];
    _mm256_storeu_ps(lane, _mm256_permutevar8x32_ps(sums, turn));
    float sum = colibri_lane_tree(lane);
    if (sink != NULL) {
        sum = sum + colibri_exp(*sink - _mm256_cvtss_f32(most));
    }
    const float inverse = 1.0f / sum;
    uint32_t d = 0;
    for (; d + 64 <= head_dim; d += 64) {
        colibri_mean(out + d, scores, values, column + d, width, reach, 8, 8, inverse, half);
    }
    for (; d + 32 <= head_dim; d += 32) {
        colibri_mean(out + d, scores, values, column + d, width, reach, 4, 8, inverse, half);
    }
    for (; d + 16 <= head_dim; d += 16) {
        colibri_mean(out + d, scores, values, column + d, width, reach, 2, 8, inverse, half);
    }
    if (d < head_dim) {
        const uint32_t rest = head_dim - d;
        const uint32_t registers = (rest + 7) / 8;
        colibri_mean(out + d, scores, values, column + d, width, reach, registers, rest - 8 * (registers - 1), inverse,
                     half);
    }
}

/* All heads; the row's key and value are in the states. */
COLIBRI_INSIDE void colibri_attend_all(float *restrict out, const float *restrict q, const void *keys,
                                       const void *values, float *restrict scores, const float *restrict sinks,
                                       uint32_t position, uint32_t heads, uint32_t kv_heads, uint32_t head_dim,
                                       uint32_t capacity, bool chunked, float scale, bool half)
{
    const uint32_t slot = position % capacity;
    const uint32_t first = chunked ? position - slot : position < capacity ? 0 : position - capacity + 1;
    const uint32_t count = position - first + 1;
    const uint32_t begin = first % capacity;
    const colibri_reach reach = {begin, count < capacity - begin ? count : capacity - begin, count};
    for (uint32_t head = 0; head < heads; head++) {
        colibri_attend(out + head * head_dim, q + head * head_dim, keys, values, scores,
                       sinks != NULL ? sinks + head : NULL, first, reach, head / (heads / kv_heads) * head_dim,
                       kv_heads * head_dim, capacity, head_dim, scale, half);
    }
}

COLIBRI_SHARED void colibri_attention_f32(float *restrict out, const float *restrict q, const float *restrict k,
                                          const float *restrict v, float *restrict keys, float *restrict values,
                                          float *restrict scores, const float *restrict sinks, uint32_t position,
                                          uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
                                          bool chunked, float scale)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t at = position % capacity * width;
    for (uint32_t i = 0; i < width; i += 8) {
        const uint32_t live = width - i;
        colibri_store_some(keys + at + i, colibri_load_some(k + i, live), live);
        colibri_store_some(values + at + i, colibri_load_some(v + i, live), live);
    }
    colibri_attend_all(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked,
                       scale, false);
}

COLIBRI_SHARED void colibri_attention_f16(float *restrict out, const float *restrict q, const float *restrict k,
                                          const float *restrict v, uint16_t *restrict keys, uint16_t *restrict values,
                                          float *restrict scores, const float *restrict sinks, uint32_t position,
                                          uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
                                          bool chunked, float scale)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t at = position % capacity * width;
    for (uint32_t i = 0; i < width; i++) {
        keys[at + i] = colibri_to_f16(k[i]);
        values[at + i] = colibri_to_f16(v[i]);
    }
    colibri_attend_all(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked,
                       scale, true);
}

#endif
