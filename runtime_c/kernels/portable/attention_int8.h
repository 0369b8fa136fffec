/* attention_int8.h: one row of causal attention over key and value states of 8 bits.
 *
 * q and out: [heads][head_dim]; k and v: [kv_heads][head_dim], stored at position % capacity; states:
 * [capacity][kv_heads * head_dim], their scales [capacity][kv_heads]. A position is in reach while the ring holds it,
 * so a sliding window is a capacity; chunked: only from the last multiple of the capacity on. All sums over positions
 * are of integers, so rows are taken as they stand. scores: [capacity]; query: [head_dim]. sinks: [heads], or NULL: a
 * score of each head without a value; it joins the sum, last. qmax: of q, so that no product passes int32.
 */
#ifndef COLIBRI_ATTENTION_INT8_H
#define COLIBRI_ATTENTION_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/attend_int8.h"

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
    for (uint32_t head = 0; head < kv_heads; head++) {
        const uint32_t column = head * head_dim;
        colibri_store_int8(keys + slot * width + column, key_scales + slot * kv_heads + head, k + column, head_dim);
        colibri_store_int8(values + slot * width + column, value_scales + slot * kv_heads + head, v + column, head_dim);
    }
    const uint32_t count = chunked || position < capacity ? slot + 1 : capacity;
    for (uint32_t head = 0; head < heads; head++) {
        const uint32_t shared = head / (heads / kv_heads);
        colibri_attend_int8(out + head * head_dim, q + head * head_dim, keys + shared * head_dim, key_scales + shared,
                            values + shared * head_dim, value_scales + shared, scores, query, NULL,
                            sinks != NULL ? sinks + head : NULL, count, kv_heads, head_dim, scale, qmax);
    }
}

#endif
