/* state_attention.h: one row of attention to the first rows of a key and a value state.
 *
 * q and out: [heads][head_dim]; states: [count][heads * head_dim]. Scores are q.k in 8 strided lanes, times scale, plus
 * bias[head][key]; the softmax sum runs in 8 lanes by the key's index; values are added in ascending order, one
 * accumulator an element, then multiplied by the reciprocal of the sum. scores: [count]. bias: the first key's of the
 * first head, or NULL; the next head's stands bias_stride behind it.
 */
#ifndef COLIBRI_STATE_ATTENTION_H
#define COLIBRI_STATE_ATTENTION_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"

static inline void colibri_state_attention_f32(float *restrict out, const float *restrict q,
                                               const float *restrict keys, const float *restrict values,
                                               float *restrict scores, const float *restrict bias,
                                               uint32_t bias_stride, uint32_t count, uint32_t heads,
                                               uint32_t head_dim, float scale)
{
    const uint32_t width = heads * head_dim;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict query = q + head * head_dim;
        float *restrict total = out + head * head_dim;

        float top = colibri_from_bits((int32_t)0xFF800000u);
        for (uint32_t i = 0; i < count; i++) {
            const float *restrict key = keys + i * width + head * head_dim;
            float lane[8] = {0.0f};
            for (uint32_t d = 0; d < head_dim; d++) {
                lane[d & 7] += query[d] * key[d];
            }
            scores[i] = colibri_lane_tree(lane) * scale;
            if (bias != NULL) {
                scores[i] = scores[i] + bias[head * bias_stride + i];
            }
            top = colibri_choose(scores[i] > top, scores[i], top);
        }

        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        for (uint32_t i = 0; i < count; i++) {
            const float *restrict value = values + i * width + head * head_dim;
            const float term = colibri_exp(scores[i] - top);
            lane[i & 7] += term;
            for (uint32_t d = 0; d < head_dim; d++) {
                total[d] += term * value[d];
            }
        }
        const float inverse = 1.0f / colibri_lane_tree(lane);
        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = total[d] * inverse;
        }
    }
}

static inline void colibri_state_attention_f16(float *restrict out, const float *restrict q,
                                               const uint16_t *restrict keys, const uint16_t *restrict values,
                                               float *restrict scores, const float *restrict bias,
                                               uint32_t bias_stride, uint32_t count, uint32_t heads,
                                               uint32_t head_dim, float scale)
{
    const uint32_t width = heads * head_dim;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict query = q + head * head_dim;
        float *restrict total = out + head * head_dim;

        float top = colibri_from_bits((int32_t)0xFF800000u);
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t *restrict key = keys + i * width + head * head_dim;
            float lane[8] = {0.0f};
            for (uint32_t d = 0; d < head_dim; d++) {
                lane[d & 7] += query[d] * colibri_from_f16(key[d]);
            }
            scores[i] = colibri_lane_tree(lane) * scale;
            if (bias != NULL) {
                scores[i] = scores[i] + bias[head * bias_stride + i];
            }
            top = colibri_choose(scores[i] > top, scores[i], top);
        }

        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        for (uint32_t i = 0; i < count; i++) {
            const uint16_t *restrict value = values + i * width + head * head_dim;
            const float term = colibri_exp(scores[i] - top);
            lane[i & 7] += term;
            for (uint32_t d = 0; d < head_dim; d++) {
                total[d] += term * colibri_from_f16(value[d]);
            }
        }
        const float inverse = 1.0f / colibri_lane_tree(lane);
        for (uint32_t d = 0; d < head_dim; d++) {
            total[d] = total[d] * inverse;
        }
    }
}

#endif
