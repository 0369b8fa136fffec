/* add.h: x += y, elementwise.
 */
#ifndef COLIBRI_ADD_H
#define COLIBRI_ADD_H

static inline void colibri_add(float *restrict x, const float *restrict y, int count)
{
    for (int i = 0; i < count; i++) {
        x[i] = x[i] + y[i];
    }
}

#endif
