/* soft_experts.h: as experts.h, for cores without an FPU.
 */
#ifndef COLIBRI_EXPERTS_H
#define COLIBRI_EXPERTS_H

#include <stdbool.h>
#include "kernels/portable/slots.h"
#include "kernels/portable/soft_float.h"

static inline void colibri_combine(float *restrict out, const float *restrict x, float weight, bool first, int width)
{
    if (first) {
        colibri_soft_scale_row(out, x, weight, width);
        return;
    }
    for (int i = 0; i < width; i++) {
        out[i] = colibri_soft_add(out[i], colibri_soft_times(weight, x[i]));
    }
}

#endif
