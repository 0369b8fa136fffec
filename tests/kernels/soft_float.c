/* soft_float.c: what cores without an FPU use, on a machine that has one. */
#include <stdint.h>

#undef __x86_64__
#undef __aarch64__
#include "kernels/portable/float32.h"

void test_soft_sqrt(float *y, const float *x, uint32_t count);

void test_soft_sqrt(float *y, const float *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_sqrt(x[i]);
    }
}

void test_soft_exp(float *y, const float *x, uint32_t count);

void test_soft_exp(float *y, const float *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_exp(x[i]);
    }
}

void test_soft_nearest_within(int32_t *y, const float *x, uint32_t count, float most);

void test_soft_nearest_within(int32_t *y, const float *x, uint32_t count, float most)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_nearest_within(x[i], most);
    }
}
