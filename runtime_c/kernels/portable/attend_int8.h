/* attend_int8.h: one head of attention over rows of 8 bits; rows_int8.h of the board's kernels stands before it.
 *
 * q and out: [head_dim]; keys and values: the head's columns of [count][kv_heads * head_dim], their scales of
 * [count][kv_heads]. bias: [count], or NULL: added to the scores. sink: a score without a value, or NULL: its term
 * joins the sum, not the maximum.
 */
#ifndef COLIBRI_ATTEND_INT8_H
#define COLIBRI_ATTEND_INT8_H

#ifndef COLIBRI_ROWS_INT8_H
#error "include rows_int8.h first"
#endif

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/quantise.h"
#include "kernels/portable/softmax_int8.h"

/* Products with keys become scores in units of the largest exponent; returns the top one. */
static inline int32_t colibri_align_rows_int8(int32_t *restrict scores, const uint16_t *restrict scales,
                                              uint32_t stride, uint32_t count, uint32_t power)
{
    int32_t top = INT32_MIN;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t score = colibri_aligned_int8(scores[i], scales[i * stride], power);
        top = colibri_larger(top, score);
        scores[i] = score;
    }
    return top;
}

/* Scores with a bias become distances, as `colibri_distances_int8` has them; returns the top score. */
static inline float colibri_biased_distances_int8(int32_t *restrict scores, const float *restrict bias, uint32_t count,
                                                  float unit)
{
    float top = colibri_from_bits((int32_t)0xFF800000u);
    for (uint32_t i = 0; i < count; i++) {
        const float score = (float)scores[i] * unit + bias[i];
        top = colibri_choose(score > top, score, top);
        scores[i] = colibri_bits(score);
    }
    for (uint32_t i = 0; i < count; i++) {
        const float x = (top - colibri_from_bits(scores[i])) * 0x1.715476p+12f; /* octaves * 2^12 */
        scores[i] = (int32_t)((uint32_t)colibri_nearest(colibri_choose(x < 131071.0f, x, 131071.0f)) << 15);
    }
    return top;
}

static inline void colibri_attend_int8(float *restrict out, const float *restrict q, const int8_t *restrict keys,
                                       const uint16_t *restrict key_scales, const int8_t *restrict values,
                                       const uint16_t *restrict value_scales, int32_t *restrict scores,
                                       int8_t *restrict query, const float *restrict bias, const float *restrict sink,
                                       uint32_t count, uint32_t kv_heads, uint32_t head_dim, float scale, float qmax)
{
    const int width = (int)head_dim;
    const float query_scale = colibri_quantise8_by(query, q, width, colibri_largest(q, width), qmax);
    colibri_dot_rows_int8(scores, query, keys, kv_heads * head_dim, count, head_dim);
    const uint32_t power = colibri_largest_power(key_scales, kv_heads, count);
    const int32_t most = colibri_align_rows_int8(scores, key_scales, kv_heads, count, power);
    const float unit = (query_scale * scale) * colibri_power_of_two((int32_t)power - 7);
    if (bias != NULL) {
        colibri_biased_distances_int8(scores, bias, count, unit);
    } else {
        colibri_distances_int8(scores, count, most, unit * COLIBRI_LOG2_E);
    }
    const colibri_softmax_int8 found = colibri_weights_int8(scores, value_scales, kv_heads, count);
    float total = found.total;
    if (sink != NULL) {
        total = total + colibri_exp(*sink - (float)most * unit);
    }
    const float factor = colibri_power_of_two(found.power - 30) / total;
    colibri_sum_rows_int8(out, scores, values, kv_heads * head_dim, count, head_dim, factor);
}

#endif
