/* attention.h: one row of causal attention over key and value states.
 *
 * q and out: [heads][head_dim]; k and v: [kv_heads][head_dim], stored at position % capacity; states:
 * [capacity][kv_heads * head_dim]. Scores are q.k in 8 strided lanes, times scale; the softmax sum runs in 8 lanes by
 * absolute position; values are added in ascending position, one accumulator an element, then multiplied by the
 * reciprocal of the sum. A position is in reach while the ring holds it, so a sliding window is a capacity; chunked: only
 * from the last multiple of the capacity on. scores:
 * [capacity]. sinks: [heads], or NULL: a score of each head without a value; it joins the maximum, and last the sum.
 */
#ifndef COLIBRI_ATTENTION_H
#define COLIBRI_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"

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
    const uint32_t first = chunked ? position - slot : position < capacity ? 0 : position - capacity + 1;
    const uint32_t count = position - first + 1;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict query = q + head * head_dim;
        float *restrict total = out + head * head_dim;
        const uint32_t column = head / (heads / kv_heads) * head_dim;

        float top = sinks != NULL ? sinks[head] : colibri_from_bits((int32_t)0xFF800000u);
        uint32_t at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            const float *restrict key = keys + at * width + column;
            float lane[8] = {0.0f};
            for (uint32_t d = 0; d < head_dim; d++) {
                lane[d & 7] += query[d] * key[d];
            }
            scores[i] = colibri_lane_tree(lane) * scale;
            top = colibri_choose(scores[i] > top, scores[i], top);
            at = at + 1 < capacity ? at + 1 : 0;
        }

        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            const float *restrict value = values + at * width + column;
            const float term = colibri_exp(scores[i] - top);
            lane[(first + i) & 7] += term;
            for (uint32_t d = 0; d < head_dim; d++) {
                total[d] += term * value[d];
            }
            at = at + 1 < capacity ? at + 1 : 0;
        }
        float sum = colibri_lane_tree(lane);
        if (sinks != NULL) {
            sum = sum + colibri_exp(sinks[head] - top);
        }
        const float inverse = 1.0f / sum;
        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = total[d] * inverse;
        }
    }
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
    const uint32_t first = chunked ? position - slot : position < capacity ? 0 : position - capacity + 1;
    const uint32_t count = position - first + 1;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict query = q + head * head_dim;
        float *restrict total = out + head * head_dim;
        const uint32_t column = head / (heads / kv_heads) * head_dim;

        float top = sinks != NULL ? sinks[head] : colibri_from_bits((int32_t)0xFF800000u);
        uint32_t at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t *restrict key = keys + at * width + column;
            float lane[8] = {0.0f};
            for (uint32_t d = 0; d < head_dim; d++) {
                lane[d & 7] += query[d] * colibri_from_f16(key[d]);
            }
            scores[i] = colibri_lane_tree(lane) * scale;
            top = colibri_choose(scores[i] > top, scores[i], top);
            at = at + 1 < capacity ? at + 1 : 0;
        }

        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t *restrict value = values + at * width + column;
            const float term = colibri_exp(scores[i] - top);
            lane[(first + i) & 7] += term;
            for (uint32_t d = 0; d < head_dim; d++) {
                total[d] += term * colibri_from_f16(value[d]);
            }
            at = at + 1 < capacity ? at + 1 : 0;
        }
        float sum = colibri_lane_tree(lane);
        if (sinks != NULL) {
            sum = sum + colibri_exp(sinks[head] - top);
        }
        const float inverse = 1.0f / sum;
        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = total[d] * inverse;
        }
    }
}

#endif
