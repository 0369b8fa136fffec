/* attention.h: one row of causal attention over key and value states, NEON.
 *
 * As portable/attention.h, operation for operation: two registers hold the 8 strided lanes of a score, and a product is
 * rounded before it is added (no FMLA). What is left of heads that are no multiple of 8 or 4 is done one by one.
 */
#ifndef COLIBRI_ATTENTION_H
#define COLIBRI_ATTENTION_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"

/* Rows of a state: fp32, or fp16 if half is set, which is a constant. */
static inline const void *colibri_row_of(const void *rows, size_t at, bool half)
{
    return half ? (const void *)((const uint16_t *)rows + at) : (const void *)((const float *)rows + at);
}

static inline float colibri_state_at(const void *row, uint32_t d, bool half)
{
    return half ? colibri_from_f16(((const uint16_t *)row)[d]) : ((const float *)row)[d];
}

static inline float32x4_t colibri_state_four(const void *row, uint32_t d, bool half)
{
    return half ? vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)row + d)))
                : vld1q_f32((const float *)row + d);
}

/* query . key, in 8 strided lanes. */
COLIBRI_INSIDE float colibri_score(const float *query, const void *key, uint32_t width, bool half)
{
    float32x4_t lanes0 = vdupq_n_f32(0.0f);
    float32x4_t lanes4 = vdupq_n_f32(0.0f);
    uint32_t d = 0;
    for (; d + 8 <= width; d += 8) {
        lanes0 = vaddq_f32(lanes0, vmulq_f32(vld1q_f32(query + d), colibri_state_four(key, d, half)));
        lanes4 = vaddq_f32(lanes4, vmulq_f32(vld1q_f32(query + d + 4), colibri_state_four(key, d + 4, half)));
    }
    float lane[8];
    vst1q_f32(lane, lanes0);
    vst1q_f32(lane + 4, lanes4);
    for (; d < width; d++) {
        lane[d & 7] += query[d] * colibri_state_at(key, d, half);
    }
    return colibri_lane_tree(lane);
}

/* total += term * value. */
COLIBRI_INSIDE void colibri_add_value(float *total, float term, const void *value, uint32_t width, bool half)
{
    uint32_t d = 0;
    for (; d + 4 <= width; d += 4) {
        const float32x4_t product = vmulq_n_f32(colibri_state_four(value, d, half), term);
        vst1q_f32(total + d, vaddq_f32(vld1q_f32(total + d), product));
    }
    for (; d < width; d++) {
        total[d] += term * colibri_state_at(value, d, half);
    }
}

COLIBRI_INSIDE void colibri_attend_row(float *restrict out, const float *restrict q, const void *keys,
                                       const void *values, float *restrict scores, const float *restrict sinks,
                                       uint32_t position, uint32_t heads, uint32_t kv_heads, uint32_t head_dim,
                                       uint32_t capacity, bool chunked, float scale, bool half)
{
    const size_t width = (size_t)kv_heads * head_dim;
    const uint32_t slot = position % capacity;
    const uint32_t first = chunked ? position - slot : position < capacity ? 0 : position - capacity + 1;
    const uint32_t count = position - first + 1;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict query = q + head * head_dim;
        float *restrict total = out + head * head_dim;
        const uint32_t column = head / (heads / kv_heads) * head_dim;

        float top = sinks != NULL ? sinks[head] : colibri_from_bits((int32_t)0xFF800000u);
        uint32_t at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            scores[i] = colibri_score(query, colibri_row_of(keys, at * width + column, half), head_dim, half) * scale;
            top = colibri_choose(scores[i] > top, scores[i], top);
            at = at + 1 < capacity ? at + 1 : 0;
        }

        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        at = first % capacity;
        for (uint32_t i = 0; i < count; i++) {
            const float term = colibri_exp(scores[i] - top);
            lane[(first + i) & 7] += term;
            colibri_add_value(total, term, colibri_row_of(values, at * width + column, half), head_dim, half);
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
    colibri_attend_row(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked,
                       scale, false);
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
    colibri_attend_row(out, q, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked,
                       scale, true);
}

#endif
