/* soft_float.c: what cores without an FPU use, on a machine that has one. */
#include <stdint.h>

#undef __x86_64__
#undef __aarch64__
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/soft_float32.h"
#include "kernels/portable/soft_quantise.h"
#include "kernels/portable/soft_store_grouped.h"

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

void test_soft_multiply(float *y, const float *a, const float *b, uint32_t count);

void test_soft_multiply(float *y, const float *a, const float *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_soft_multiply(a[i], b[i]);
    }
}

void test_soft_add(float *y, const float *a, const float *b, uint32_t count);

void test_soft_add(float *y, const float *a, const float *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_soft_add(a[i], b[i]);
    }
}

void test_soft_divide(float *y, const float *a, const float *b, uint32_t count);

void test_soft_divide(float *y, const float *a, const float *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_soft_divide(a[i], b[i]);
    }
}

void test_soft_silu_times(float *up, const float *gate, uint32_t count);

void test_soft_silu_times(float *up, const float *gate, uint32_t count)
{
    colibri_silu_times(up, gate, count);
}

void test_soft_store_grouped(float *y, const int32_t *sum, const uint16_t *row_scale, float x_scale, int32_t count);

void test_soft_store_grouped(float *y, const int32_t *sum, const uint16_t *row_scale, float x_scale, int32_t count)
{
    colibri_store_grouped(y, sum, row_scale, 0, x_scale, count);
}

void test_soft_quantise16(int16_t *y, float *scale, const float *x, int32_t k, int32_t stride, float qmax);

void test_soft_quantise16(int16_t *y, float *scale, const float *x, int32_t k, int32_t stride, float qmax)
{
    colibri_quantise16(y, scale, x, k, stride, qmax);
}

void test_soft_quantise8(int8_t *y, float *scale, const float *x, int32_t k, int32_t stride, float qmax);

void test_soft_quantise8(int8_t *y, float *scale, const float *x, int32_t k, int32_t stride, float qmax)
{
    colibri_quantise8(y, scale, x, k, stride, qmax);
}
