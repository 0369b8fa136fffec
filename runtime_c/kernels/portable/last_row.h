/* last_row.h: copy one row.
 */
#ifndef COLIBRI_LAST_ROW_H
#define COLIBRI_LAST_ROW_H

#include <stdint.h>

static inline void colibri_last_row(float *restrict out, const float *restrict x, uint32_t row, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        out[i] = x[row * width + i];
    }
}

#endif
