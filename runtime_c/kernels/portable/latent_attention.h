/* latent_attention.h: one row of causal attention in which all heads share a latent key, which is the value, too.
 *
 * q and out: [heads][rank]; q_rope: [heads][rope_dim]; latent [rank] and k_rope [rope_dim] are stored at position;
 * states: [positions][rank] and [positions][rope_dim]. A score is q.latent + q_rope.k_rope, each in 8 strided lanes,
 * times scale; the softmax sum runs in 8 lanes by position; latents are added in ascending position, one accumulator
 * an element, then multiplied by the reciprocal of the sum. scores: [positions].
 */
#ifndef COLIBRI_LATENT_ATTENTION_H
#define COLIBRI_LATENT_ATTENTION_H

#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/float32.h"

static inline float colibri_latent_dot_f32(const float *restrict x, const float *restrict y, uint32_t count)
{
    float lane[8] = {0.0f};
    for (uint32_t i = 0; i < count; i++) {
        lane[i & 7] += x[i] * y[i];
    }
    return colibri_lane_tree(lane);
}

static inline void colibri_latent_attention_f32(float *restrict out, const float *restrict q,
                                                const float *restrict q_rope, const float *restrict latent,
                                                const float *restrict k_rope, float *restrict latents,
                                                float *restrict keys, float *restrict scores, uint32_t position,
                                                uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale)
{
    for (uint32_t i = 0; i < rank; i++) {
        latents[position * rank + i] = latent[i];
    }
    for (uint32_t i = 0; i < rope_dim; i++) {
        keys[position * rope_dim + i] = k_rope[i];
    }
    for (uint32_t head = 0; head < heads; head++) {
        float *restrict total = out + head * rank;
        float top = colibri_from_bits((int32_t)0xFF800000u);
        for (uint32_t i = 0; i <= position; i++) {
            const float near = colibri_latent_dot_f32(q + head * rank, latents + i * rank, rank);
            const float far = colibri_latent_dot_f32(q_rope + head * rope_dim, keys + i * rope_dim, rope_dim);
            scores[i] = (near + far) * scale;
            top = colibri_choose(scores[i] > top, scores[i], top);
        }
        for (uint32_t d = 0; d < rank; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        for (uint32_t i = 0; i <= position; i++) {
            const float *restrict value = latents + i * rank;
            const float term = colibri_exp(scores[i] - top);
            lane[i & 7] += term;
            for (uint32_t d = 0; d < rank; d++) {
                total[d] += term * value[d];
            }
        }
        const float inverse = 1.0f / colibri_lane_tree(lane);
        for (uint32_t d = 0; d < rank; d++) {
            total[d] = total[d] * inverse;
        }
    }
}

static inline float colibri_latent_dot_f16(const float *restrict x, const uint16_t *restrict y, uint32_t count)
{
    float lane[8] = {0.0f};
    for (uint32_t i = 0; i < count; i++) {
        lane[i & 7] += x[i] * colibri_from_f16(y[i]);
    }
    return colibri_lane_tree(lane);
}

static inline void colibri_latent_attention_f16(float *restrict out, const float *restrict q,
                                                const float *restrict q_rope, const float *restrict latent,
                                                const float *restrict k_rope, uint16_t *restrict latents,
                                                uint16_t *restrict keys, float *restrict scores, uint32_t position,
                                                uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale)
{
    for (uint32_t i = 0; i < rank; i++) {
        latents[position * rank + i] = colibri_to_f16(latent[i]);
    }
    for (uint32_t i = 0; i < rope_dim; i++) {
        keys[position * rope_dim + i] = colibri_to_f16(k_rope[i]);
    }
    for (uint32_t head = 0; head < heads; head++) {
        float *restrict total = out + head * rank;
        float top = colibri_from_bits((int32_t)0xFF800000u);
        for (uint32_t i = 0; i <= position; i++) {
            const float near = colibri_latent_dot_f16(q + head * rank, latents + i * rank, rank);
            const float far = colibri_latent_dot_f16(q_rope + head * rope_dim, keys + i * rope_dim, rope_dim);
            scores[i] = (near + far) * scale;
            top = colibri_choose(scores[i] > top, scores[i], top);
        }
        for (uint32_t d = 0; d < rank; d++) {
            total[d] = 0.0f;
        }
        float lane[8] = {0.0f};
        for (uint32_t i = 0; i <= position; i++) {
            const uint16_t *restrict value = latents + i * rank;
            const float term = colibri_exp(scores[i] - top);
            lane[i & 7] += term;
            for (uint32_t d = 0; d < rank; d++) {
                total[d] += term * colibri_from_f16(value[d]);
            }
        }
        const float inverse = 1.0f / colibri_lane_tree(lane);
        for (uint32_t d = 0; d < rank; d++) {
            total[d] = total[d] * inverse;
        }
    }
}

#endif
