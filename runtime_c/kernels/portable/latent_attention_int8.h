/* latent_attention_int8.h: one row of causal attention in which all heads share a latent key of 8 bits, which is the
 * value, too.
 *
 * q and out: [heads][rank]; q_rope: [heads][rope_dim]; latent [rank] and k_rope [rope_dim] are stored at position;
 * states: [positions][rank] and [positions][rope_dim], their scales [positions]. Both parts of a query have one scale,
 * and a score is the sum of both products, each in units of the largest exponent of all scales. scores: [positions];
 * query: [rank + rope_dim]. qmax: of a query, so that no sum passes int32.
 */
#ifndef COLIBRI_LATENT_ATTENTION_INT8_H
#define COLIBRI_LATENT_ATTENTION_INT8_H

#include <stdint.h>
#include "kernels/portable/attend_int8.h"

/* Products with latents become scores, with what the keys of a few rows add; returns the top one. */
static inline int32_t colibri_latent_scores_int8(int32_t *restrict scores, const int8_t *restrict query,
                                                 const uint16_t *restrict latent_scales, const int8_t *restrict keys,
                                                 const uint16_t *restrict key_scales, uint32_t power, uint32_t count,
                                                 uint32_t rope_dim)
{
    int32_t top = INT32_MIN;
    for (uint32_t i = 0; i < count; i += 8) {
        const uint32_t some = count - i < 8 ? count - i : 8;
        int32_t far[8];
        colibri_dot_rows_int8(far, query, keys + i * rope_dim, rope_dim, some, rope_dim);
        for (uint32_t j = 0; j < some; j++) {
            const int32_t score = colibri_aligned_int8(scores[i + j], latent_scales[i + j], power) +
                                  colibri_aligned_int8(far[j], key_scales[i + j], power);
            top ^= (top ^ score) & -(int32_t)(score > top);
            scores[i + j] = score;
        }
    }
    return top;
}

static inline void colibri_latent_attention_int8(float *restrict out, const float *restrict q,
                                                 const float *restrict q_rope, const float *restrict latent,
                                                 const float *restrict k_rope, int8_t *restrict latents,
                                                 uint16_t *restrict latent_scales, int8_t *restrict keys,
                                                 uint16_t *restrict key_scales, int32_t *restrict scores,
                                                 int8_t *restrict query, uint32_t position, uint32_t heads,
                                                 uint32_t rank, uint32_t rope_dim, float scale, float qmax)
{
    colibri_store_int8(latents + position * rank, latent_scales + position, latent, rank);
    colibri_store_int8(keys + position * rope_dim, key_scales + position, k_rope, rope_dim);
    const uint32_t count = position + 1;
    const uint32_t near = colibri_largest_power(latent_scales, 1, count);
    const uint32_t far = colibri_largest_power(key_scales, 1, count);
    const uint32_t power = near > far ? near : far;
    for (uint32_t head = 0; head < heads; head++) {
        const float *restrict plain = q + head * rank;
        const float *restrict turned = q_rope + head * rope_dim;
        const float one = colibri_largest(plain, (int)rank);
        const float other = colibri_largest(turned, (int)rope_dim);
        const float top = colibri_choose(one > other, one, other);
        const float query_scale = colibri_quantise8_by(query, plain, (int)rank, top, qmax);
        (void)colibri_quantise8_by(query + rank, turned, (int)rope_dim, top, qmax);
        colibri_dot_rows_int8(scores, query, latents, rank, count, rank);
        const int32_t most = colibri_latent_scores_int8(scores, query + rank, latent_scales, keys, key_scales, power,
                                                        count, rope_dim);
        const float unit = (query_scale * scale) * colibri_power_of_two((int32_t)power - 7);
        colibri_distances_int8(scores, count, most, unit * COLIBRI_LOG2_E);
        const colibri_softmax_int8 found = colibri_weights_int8(scores, latent_scales, 1, count);
        const float factor = colibri_power_of_two(found.power - 30) / found.total;
        colibri_sum_rows_int8(out + head * rank, scores, latents, rank, count, rank, factor);
    }
}

#endif
