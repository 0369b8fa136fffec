/* soft_add_rows.h: as add.h, for cores without an FPU.
 */
#ifndef COLIBRI_ADD_H
#define COLIBRI_ADD_H

#include "kernels/portable/soft_float.h"

static inline void colibri_add(float *restrict x, const float *restrict y, int count)
{
    for (int i = 0; i < count; i++) {
        x[i] = colibri_soft_add(x[i], y[i]);
    }
}

#endif
