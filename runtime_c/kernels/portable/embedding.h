/* embedding.h: one row of a packed matrix as fp32: (float)(integer * group scale) * row scale.
 *
 * rows, cols: tile of the packing; padded: columns with padding. Of matrices in groups, row_scale has the upper 16 bits
 * of fp32 values.
 */
#ifndef COLIBRI_EMBEDDING_H
#define COLIBRI_EMBEDDING_H

#include <stdint.h>
#include "kernels/portable/float16.h"
#include "kernels/portable/linear.h"

static inline void colibri_embedding_f32(float *restrict out, const float *restrict data, uint32_t token,
                                         uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded)
{
    const float *restrict tile = data + (token / rows * padded * rows) + token % rows * cols;
    for (uint32_t i = 0; i < width; i++) {
        out[i] = tile[i / cols * rows * cols + i % cols];
    }
}

static inline void colibri_embedding_f16(float *restrict out, const uint16_t *restrict data, uint32_t token,
                                         uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded)
{
    const uint16_t *restrict tile = data + (token / rows * padded * rows) + token % rows * cols;
    for (uint32_t i = 0; i < width; i++) {
        out[i] = colibri_from_f16(tile[i / cols * rows * cols + i % cols]);
    }
}

static inline void colibri_embedding_w8(float *restrict out, const uint8_t *restrict data,
                                        const float *restrict row_scale, uint32_t token, uint32_t width, uint32_t rows,
                                        uint32_t cols, uint32_t padded)
{
    const int8_t *restrict tile = (const int8_t *)data + (token / rows * padded * rows) + token % rows * cols;
    for (uint32_t i = 0; i < width; i++) {
        out[i] = (float)tile[i / cols * rows * cols + i % cols] * row_scale[token];
    }
}

/* cols is 32; factors: one int8 a group of 32. */
static inline void colibri_embedding_w4(float *restrict out, const uint8_t *restrict data,
                                        const uint8_t *restrict factors, const uint16_t *restrict row_scale,
                                        uint32_t token, uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded)
{
    const uint8_t *restrict tile = data + (token / rows * padded * rows + token % rows * cols) / 2;
    const float scale = colibri_from_upper(row_scale[token]);
    const int8_t *restrict factor = (const int8_t *)factors + token / rows * (padded / cols) * rows + token % rows;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t byte = tile[i / 32 * rows * 16 + i % 16];
        const int32_t weight = (int32_t)(i & 16 ? byte >> 4 : byte & 15) - 8;
        out[i] = (float)(weight * factor[i / 32 * rows]) * scale;
    }
}

#endif
