/* embedding_fp4.h: one row of a packed matrix of 4-bit floats as fp32: (float)(integer * power of two) * row scale.
 *
 * rows: of the packing's tile, whose cols is 32; padded: columns with padding.
 */
#ifndef COLIBRI_EMBEDDING_FP4_H
#define COLIBRI_EMBEDDING_FP4_H

#include <stdint.h>
#include "kernels/portable/e2m1.h"
#include "kernels/portable/linear.h"

static inline void colibri_embedding_fp4(float *restrict out, const uint8_t *restrict data,
                                         const uint8_t *restrict group_scale, const uint16_t *restrict row_scale,
                                         uint32_t token, uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded)
{
    const uint8_t *restrict tile = data + (token / rows * padded * rows + token % rows * cols) / 2;
    const uint8_t *restrict scale = group_scale + token / rows * (padded / cols) * rows + token % rows;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t byte = tile[i / 32 * rows * 16 + i % 16];
        const int32_t weight = colibri_e2m1[i & 16 ? byte >> 4 : byte & 15];
        out[i] = (float)(weight * colibri_power(scale[i / 32 * rows])) * colibri_from_upper(row_scale[token]);
    }
}

#endif
