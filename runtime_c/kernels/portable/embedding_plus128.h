/* embedding_plus128.h: one row of a packed matrix of 8 bits as fp32: (float)integer * row scale.
 *
 * rows, cols: tile of the packing; padded: columns with padding. Each byte is an integer plus 128.
 */
#ifndef COLIBRI_EMBEDDING_PLUS128_H
#define COLIBRI_EMBEDDING_PLUS128_H

#include <stdint.h>

static inline void colibri_embedding_plus128(float *restrict out, const uint8_t *restrict data,
                                             const float *restrict row_scale, uint32_t token, uint32_t width,
                                             uint32_t rows, uint32_t cols, uint32_t padded)
{
    const uint8_t *restrict tile = data + (token / rows * padded * rows) + token % rows * cols;
    for (uint32_t i = 0; i < width; i++) {
        out[i] = (float)(tile[i / cols * rows * cols + i % cols] - 128) * row_scale[token];
    }
}

#endif
