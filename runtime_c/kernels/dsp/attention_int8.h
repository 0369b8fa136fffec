/* attention_int8.h: as portable/attention_int8.h, for Cortex-M with the DSP extension: what heads share of a head of keys
 * and values is asked once.
 */
#ifndef COLIBRI_ATTENTION_INT8_H
#define COLIBRI_ATTENTION_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/dsp/quantise.h"
#include "kernels/dsp/softmax_int8.h"
#include "kernels/portable/attend_int8.h"

/* Inside another function their loops would lack registers. */
COLIBRI_SHARED int32_t colibri_scores_int8(int32_t *restrict scores, const uint16_t *restrict scales, uint32_t stride,
                                           uint32_t count, uint32_t power)
{
    return colibri_align_rows_int8(scores, scales, stride, count, power);
}

COLIBRI_SHARED void colibri_scores_to_distances_int8(int32_t *restrict scores, uint32_t count, int32_t top, float unit)
{
    colibri_distances_int8(scores, count, top, unit);
}

/* One head, as colibri_attend_int8 has it, with the largest exponents of the scales given. */
static inline void colibri_attend_powers_int8(float *restrict out, const float *restrict q, const int8_t *restrict keys,
                                              const uint16_t *restrict key_scales, const int8_t *restrict values,
                                              const uint16_t *restrict value_scales, int32_t *restrict scores,
                                              int8_t *restrict query, const float *restrict sink, uint32_t key_power,
                                              uint32_t value_power, uint32_t count, uint32_t kv_heads,
                                              uint32_t head_dim, float scale, float qmax)
{
    float query_scale;
    bool finite;
    const float inverse = colibri_inverse(&query_scale, colibri_largest_finite(&finite, q, (int)head_dim), qmax);
    colibri_scale8(query, q, (int)head_dim, inverse, qmax, finite);
    colibri_dot_rows_int8(scores, query, keys, kv_heads * head_dim, count, head_dim);
    const int32_t most = colibri_scores_int8(scores, key_scales, kv_heads, count, key_power);
    const float unit = (query_scale * scale) * colibri_power_of_two((int32_t)key_power - 7);
    colibri_scores_to_distances_int8(scores, count, most, unit * COLIBRI_LOG2_E);
    const colibri_softmax_int8 found = colibri_weights_power_int8(scores, value_scales, kv_heads, count, value_power);
    float total = found.total;
    if (sink != NULL) {
        total = total + colibri_exp(*sink - (float)most * unit);
    }
    const float factor = colibri_power_of_two(found.power - 30) / total;
    colibri_sum_rows_int8(out, scores, values, kv_heads * head_dim, count, head_dim, factor);
}

static inline void colibri_attention_int8(float *restrict out, const float *restrict q, const float *restrict k,
                                          const float *restrict v, int8_t *restrict keys, uint16_t *restrict key_scales,
                                          int8_t *restrict values, uint16_t *restrict value_scales,
                                          int32_t *restrict scores, int8_t *restrict query,
                                          const float *restrict sinks, uint32_t position, uint32_t heads,
                                          uint32_t kv_heads, uint32_t head_dim, uint32_t capacity, bool chunked,
                                          float scale, float qmax)
{
    const uint32_t width = kv_heads * head_dim;
    const uint32_t slot = position % capacity;
    const uint32_t count = chunked || position < capacity ? slot + 1 : capacity;
    for (uint32_t shared = 0; shared < kv_heads; shared++) {
        const uint32_t column = shared * head_dim;
        const uint32_t at = slot * width + column;
        colibri_store_int8(keys + at, key_scales + slot * kv_heads + shared, k + column, head_dim);
        colibri_store_int8(values + at, value_scales + slot * kv_heads + shared, v + column, head_dim);
        const uint32_t key_power = colibri_largest_power(key_scales + shared, kv_heads, count);
        const uint32_t value_power = colibri_largest_power(value_scales + shared, kv_heads, count);
        for (uint32_t i = 0; i < heads / kv_heads; i++) {
            const uint32_t head = shared * (heads / kv_heads) + i;
            colibri_attend_powers_int8(out + head * head_dim, q + head * head_dim, keys + column, key_scales + shared,
                                       values + column, value_scales + shared, scores, query,
                                       sinks != NULL ? sinks + head : NULL, key_power, value_power, count, kv_heads,
                                       head_dim, scale, qmax);
        }
    }
}

#endif
