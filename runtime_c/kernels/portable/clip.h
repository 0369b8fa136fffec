/* clip.h: x within -limit .. limit, elementwise; NaN becomes -limit.
 */
#ifndef COLIBRI_CLIP_H
#define COLIBRI_CLIP_H

#include "kernels/portable/float32.h"

static inline void colibri_clip(float *restrict x, float limit, int count)
{
    for (int i = 0; i < count; i++) {
        const float low = colibri_choose(x[i] > -limit, x[i], -limit);
        x[i] = colibri_choose(low < limit, low, limit);
    }
}

#endif
