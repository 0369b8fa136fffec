/* state_attention_int8.h: one row of attention to the first rows of a key and a value state of 8 bits.
 *
 * q and out: [heads][head_dim]; states: [count][heads * head_dim], their scales [count][heads]. bias: the first key's
 * of the first head, or NULL; the next head's stands bias_stride behind it. scores: [count]; query: [head_dim].
 */
#ifndef COLIBRI_STATE_ATTENTION_INT8_H
#define COLIBRI_STATE_ATTENTION_INT8_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/attend_int8.h"

static inline void colibri_state_attention_int8(float *restrict out, const float *restrict q,
                                                const int8_t *restrict keys, const uint16_t *restrict key_scales,
                                                const int8_t *restrict values, const uint16_t *restrict value_scales,
                                                int32_t *restrict scores, int8_t *restrict query,
                                                const float *restrict bias, uint32_t bias_stride, uint32_t count,
                                                uint32_t heads, uint32_t head_dim, float scale, float qmax)
{
    for (uint32_t head = 0; head < heads; head++) {
        colibri_attend_int8(out + head * head_dim, q + head * head_dim, keys + head * head_dim, key_scales + head,
                            values + head * head_dim, value_scales + head, scores, query,
                            bias != NULL ? bias + head * bias_stride : NULL, NULL, count, heads, head_dim, scale, qmax);
    }
}

#endif
