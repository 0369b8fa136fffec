/* embedding_lanes.h: one row of a packed matrix of 4 bits as fp32: (float)(integer * factor) * row scale.
 *
 * Packing: [padded / 32][4][rows][4] bytes a tile of rows; byte b of part p of a row holds column 4 p + b of 32 in its low
 * and column 4 p + b + 16 in its high half, each plus 8; padded: columns with padding. factors: int8 [groups][rows], of
 * group columns each. tail, columns: NULL where there are none. row_scale has the upper 16 bits of fp32 values.
 */
#ifndef COLIBRI_EMBEDDING_LANES_H
#define COLIBRI_EMBEDDING_LANES_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/linear.h"

static inline void colibri_embedding_lanes(float *restrict out, const uint8_t *restrict data,
                                           const uint8_t *restrict factors, const uint8_t *restrict tail,
                                           const uint16_t *restrict columns, uint32_t count,
                                           const uint16_t *restrict row_scale, uint32_t token, uint32_t width,
                                           uint32_t rows, uint32_t padded, uint32_t group)
{
    const uint32_t row = token % rows;
    const uint32_t first = token - row; /* of the tile */
    const uint8_t *restrict tile = data + first * (padded / 2) + row * 4;
    const int8_t *restrict factor = (const int8_t *)factors + first * ((padded + group - 1) / group) + row;
    const float scale = colibri_from_upper(row_scale[token]);
    uint32_t next = 0;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t byte = tile[(i / 32 * 4 + i % 16 / 4) * rows * 4 + i % 4];
        int32_t weight = ((int32_t)(i & 16 ? byte >> 4 : byte & 15) - 8) * factor[i / group * rows];
        if (tail != NULL && next < count && columns[next] == i) {
            weight += (int8_t)tail[first * count + next * rows + row];
            next++;
        }
        out[i] = (float)weight * scale;
    }
}

#endif
