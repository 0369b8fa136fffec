/* embedding_pairs.h: one row of a packed matrix of 8 bits as fp32: (float)integer * row scale.
 *
 * Packing: tiles of 4 rows, [padded / 2][2 pairs of rows][2 columns] numbers of 16 bits: a + 256 b for the weights of a
 * pair; padded: columns with padding.
 */
#ifndef COLIBRI_EMBEDDING_PAIRS_H
#define COLIBRI_EMBEDDING_PAIRS_H

#include <stdint.h>

static inline void colibri_embedding_pairs(float *restrict out, const uint16_t *restrict data,
                                           const float *restrict row_scale, uint32_t token, uint32_t width,
                                           uint32_t padded)
{
    const uint16_t *restrict tile = data + token / 4 * 2 * padded + token % 4 / 2 * 2;
    for (uint32_t i = 0; i < width; i++) {
        const int32_t both = (int16_t)tile[i / 2 * 4 + i % 2];
        const int32_t first = (int8_t)(both & 255);
        out[i] = (float)(token % 2 == 0 ? first : (both - first) / 256) * row_scale[token];
    }
}

#endif
