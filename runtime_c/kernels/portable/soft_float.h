/* soft_float.h: products, sums and quotients of fp32 for cores without an FPU, as functions that all kernels share.
 */
#ifndef COLIBRI_SOFT_FLOAT_H
#define COLIBRI_SOFT_FLOAT_H

#include "kernels/portable/soft_add.h"
#include "kernels/portable/soft_divide.h"
#include "kernels/portable/soft_multiply.h"

static COLIBRI_APART float colibri_soft_times(float x, float y)
{
    return colibri_soft_multiply(x, y);
}

static inline float colibri_soft_subtract(float x, float y)
{
    return colibri_soft_add(x, colibri_from_bits(colibri_bits(y) ^ INT32_MIN));
}

static COLIBRI_APART float colibri_soft_over(float x, float y)
{
    return colibri_soft_divide(x, y);
}

#endif
