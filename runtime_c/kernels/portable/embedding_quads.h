/* embedding_quads.h: one row of a packed matrix of 4 bits as fp32: (float)(integer * factor) * row scale.
 *
 * Packing: tiles of 4 rows, a number of 16 bits for each column: a + 16 b + 256 c + 4096 d, where 8 was added to a, b and
 * c; padded: columns with padding. factors: int8 [groups][4], of group columns each. tail, columns: NULL where there
 * are none. row_scale has the upper 16 bits of fp32 values.
 */
#ifndef COLIBRI_EMBEDDING_QUADS_H
#define COLIBRI_EMBEDDING_QUADS_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/linear.h"

static inline void colibri_embedding_quads(float *restrict out, const uint16_t *restrict data,
                                           const uint8_t *restrict factors, const uint8_t *restrict tail,
                                           const uint16_t *restrict columns, uint32_t count,
                                           const uint16_t *restrict row_scale, uint32_t token, uint32_t width,
                                           uint32_t padded, uint32_t group)
{
    const uint16_t *restrict tile = data + token / 4 * padded;
    const uint32_t row = token % 4;
    const int8_t *restrict factor = (const int8_t *)factors + token / 4 * ((padded + group - 1) / group) * 4 + row;
    const float scale = colibri_from_upper(row_scale[token]);
    uint32_t next = 0;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t bits = (uint32_t)tile[i] >> 4 * row & 15;
        int32_t weight = ((int32_t)(row == 3 ? bits ^ 8 : bits) - 8) * factor[i / group * 4];
        if (tail != NULL && next < count && columns[next] == i) {
            weight += (int8_t)tail[(token / 4 * count + next) * 4 + row];
            next++;
        }
        out[i] = (float)weight * scale;
    }
}

#endif
