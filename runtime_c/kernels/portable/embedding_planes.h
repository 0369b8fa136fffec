/* embedding_planes.h: one row of a packed matrix of 2 to 6 bits as fp32: (float)integer * row scale.
 *
 * bits, group: of the coding; zeros, tail: NULL where there are none. rows: of the packing's tile, whose cols is 32;
 * padded: columns with padding. row_scale has the upper 16 bits of fp32 values.
 */
#ifndef COLIBRI_EMBEDDING_PLANES_H
#define COLIBRI_EMBEDDING_PLANES_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/linear.h"
#include "kernels/portable/planes.h"

/* The integer of a column of 32 in the tile that data points to. */
static inline int32_t colibri_plane_integer(const uint8_t *data, uint32_t row, uint32_t column, uint32_t rows,
                                            uint32_t bits)
{
    const uint32_t low = bits >= 4 ? 4 : 2;
    const uint32_t high = bits - low;
    const uint8_t first = data[row * 4 * low + column % (4 * low)];
    uint32_t q = (uint32_t)first >> column / (4 * low) * low & ((1u << low) - 1);
    if (high != 0) {
        const uint8_t second = data[rows * 4 * low + row * 4 * high + column % (4 * high)];
        q |= ((uint32_t)second >> column / (4 * high) * high & ((1u << high) - 1)) << low;
    }
    return (int32_t)q;
}

static inline void colibri_embedding_planes(float *restrict out, const uint8_t *restrict data,
                                            const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                            const uint8_t *restrict tail, const uint16_t *restrict columns,
                                            uint32_t count, const uint16_t *restrict row_scale, uint32_t token,
                                            uint32_t width, uint32_t rows, uint32_t padded, uint32_t bits,
                                            uint32_t group)
{
    const uint32_t row = token % rows;
    const uint32_t tile = token / rows;
    const float scale = colibri_from_upper(row_scale[token]);
    const uint32_t groups = (padded + group - 1) / group;
    uint32_t next = 0;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t at = (tile * groups + i / group) * rows + row;
        const int8_t factor = (int8_t)factors[at];
        const uint8_t *const block = data + (tile * padded + i / 32 * 32) * rows / 8 * bits;
        const int32_t q = colibri_plane_integer(block, row, i % 32, rows, bits);
        int32_t weight = zeros != NULL ? q * factor - colibri_zero(zeros[at], factor, (int)bits)
                                       : (q - (1 << (bits - 1))) * factor;
        if (tail != NULL && next < count && columns[next] == i) {
            weight += (int8_t)tail[(tile * count + next) * rows + row];
            next++;
        }
        out[i] = (float)weight * scale;
    }
}

#endif
