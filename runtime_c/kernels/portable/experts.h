/* experts.h: add an expert's output with its weight; the first expert's is assigned.
 */
#ifndef COLIBRI_EXPERTS_H
#define COLIBRI_EXPERTS_H

#include <stdbool.h>
#include "kernels/portable/slots.h"

static inline void colibri_combine(float *restrict out, const float *restrict x, float weight, bool first, int width)
{
    for (int i = 0; i < width; i++) {
        const float term = weight * x[i];
        out[i] = first ? term : out[i] + term;
    }
}

#endif
