/* add_weighted.h: x += sigmoid(score) * y, elementwise.
 */
#ifndef COLIBRI_ADD_WEIGHTED_H
#define COLIBRI_ADD_WEIGHTED_H

#include "kernels/portable/float32.h"

static inline void colibri_add_weighted(float *restrict x, const float *restrict y, float score, int width)
{
    const float weight = colibri_sigmoid(score);
    for (int i = 0; i < width; i++) {
        x[i] = x[i] + weight * y[i];
    }
}

#endif
