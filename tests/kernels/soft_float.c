/* soft_float.c: what cores without an FPU use, on a machine that has one. */
#include <stdint.h>

#undef __x86_64__
#undef __aarch64__
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/soft_float32.h"
#include "kernels/portable/soft_quantise.h"
#include "kernels/portable/soft_store_grouped.h"
#include "kernels/soft_float/hidden_int8.h"
#include "kernels/soft_float/rms_norm_int8.h"
#include "kernels/soft_float/route.h"
#include "kernels/soft_float/rows_int8.h"
#include "kernels/soft_float/softmax_int8.h"
/* These find what they call in the two above. */
#include "kernels/portable/attention_int8.h"
#include "kernels/portable/latent_attention_int8.h"
#include "kernels/portable/state_attention_int8.h"

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

void test_soft_hidden_grouped(int8_t *y, float *scale, float *values, const int32_t *up, const uint16_t *up_scale,
                              const int32_t *gate, const uint16_t *gate_scale, const float *x_scale, int32_t k,
                              int32_t stride, float qmax);

void test_soft_hidden_grouped(int8_t *y, float *scale, float *values, const int32_t *up, const uint16_t *up_scale,
                              const int32_t *gate, const uint16_t *gate_scale, const float *x_scale, int32_t k,
                              int32_t stride, float qmax)
{
    colibri_hidden_int8_grouped(y, scale, values, up, up_scale, gate, gate_scale, x_scale, k, stride, qmax);
}

void test_soft_hidden_scaled(int8_t *y, float *scale, float *values, const int32_t *up, const float *up_scale,
                             const int32_t *gate, const float *gate_scale, const float *x_scale, int32_t k,
                             int32_t stride, float qmax);

void test_soft_hidden_scaled(int8_t *y, float *scale, float *values, const int32_t *up, const float *up_scale,
                             const int32_t *gate, const float *gate_scale, const float *x_scale, int32_t k,
                             int32_t stride, float qmax)
{
    colibri_hidden_int8_scaled(y, scale, values, up, up_scale, gate, gate_scale, x_scale, k, stride, qmax);
}

int32_t test_soft_hidden_estimates(float *values, const int32_t *up, const float *up_scale, const int32_t *gate,
                                   const float *gate_scale, float x_scale, int32_t k);

int32_t test_soft_hidden_estimates(float *values, const int32_t *up, const float *up_scale, const int32_t *gate,
                                   const float *gate_scale, float x_scale, int32_t k)
{
    const colibri_row_sums rows_of_up = {up, up_scale, NULL};
    const colibri_row_sums rows_of_gate = {gate, gate_scale, NULL};
    return colibri_hidden_estimates(values, &rows_of_up, &rows_of_gate, x_scale, k, false) != 0;
}

void test_soft_rms_norm(float *y, const float *x, const float *w, int32_t width, float eps);

void test_soft_rms_norm(float *y, const float *x, const float *w, int32_t width, float eps)
{
    colibri_rms_norm(y, x, w, width, eps);
}

void test_soft_rms_norm_int8(int8_t *y, float *scale, float *values, const float *x, const float *w, int32_t width,
                             int32_t stride, float eps, float qmax);

void test_soft_rms_norm_int8(int8_t *y, float *scale, float *values, const float *x, const float *w, int32_t width,
                             int32_t stride, float eps, float qmax)
{
    colibri_rms_norm_int8(y, scale, values, x, w, width, stride, eps, qmax);
}

void test_soft_route(uint32_t *index, float *weight, float *scores, int32_t *inputs, const float *w, const float *x,
                     uint32_t n, uint32_t width, uint32_t k);

void test_soft_route(uint32_t *index, float *weight, float *scores, int32_t *inputs, const float *w, const float *x,
                     uint32_t n, uint32_t width, uint32_t k)
{
    colibri_route(index, weight, scores, inputs, w, x, n, width, k);
}

void test_soft_scale_row(float *y, const float *x, float factor, int32_t count);

void test_soft_scale_row(float *y, const float *x, float factor, int32_t count)
{
    colibri_soft_scale_row(y, x, factor, count);
}

void test_soft_attention_int8(float *out, const float *q, const float *k, const float *v, int8_t *keys,
                              uint16_t *key_scales, int8_t *values, uint16_t *value_scales, int32_t *scores, int8_t *query,
                              const float *sinks, int32_t position, int32_t heads, int32_t kv_heads, int32_t head_dim,
                              int32_t capacity, bool chunked, float scale, float qmax);

void test_soft_attention_int8(float *out, const float *q, const float *k, const float *v, int8_t *keys,
                              uint16_t *key_scales, int8_t *values, uint16_t *value_scales, int32_t *scores, int8_t *query,
                              const float *sinks, int32_t position, int32_t heads, int32_t kv_heads, int32_t head_dim,
                              int32_t capacity, bool chunked, float scale, float qmax)
{
    colibri_attention_int8(out, q, k, v, keys, key_scales, values, value_scales, scores, query, sinks, (uint32_t)position,
                           (uint32_t)heads, (uint32_t)kv_heads, (uint32_t)head_dim, (uint32_t)capacity, chunked, scale,
                           qmax);
}

void test_soft_latent_attention_int8(float *out, const float *q, const float *q_rope, const float *latent,
                                     const float *k_rope, int8_t *latents, uint16_t *latent_scales, int8_t *keys,
                                     uint16_t *key_scales, int32_t *scores, int8_t *query, uint32_t position,
                                     uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale, float qmax);

void test_soft_latent_attention_int8(float *out, const float *q, const float *q_rope, const float *latent,
                                     const float *k_rope, int8_t *latents, uint16_t *latent_scales, int8_t *keys,
                                     uint16_t *key_scales, int32_t *scores, int8_t *query, uint32_t position,
                                     uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale, float qmax)
{
    colibri_latent_attention_int8(out, q, q_rope, latent, k_rope, latents, latent_scales, keys, key_scales, scores, query,
                                  position, heads, rank, rope_dim, scale, qmax);
}

void test_soft_state_attention_int8(float *out, const float *q, const int8_t *keys, const uint16_t *key_scales,
                                    const int8_t *values, const uint16_t *value_scales, int32_t *scores, int8_t *query,
                                    const float *bias, uint32_t bias_stride, uint32_t count, uint32_t heads,
                                    uint32_t head_dim, float scale, float qmax);

void test_soft_state_attention_int8(float *out, const float *q, const int8_t *keys, const uint16_t *key_scales,
                                    const int8_t *values, const uint16_t *value_scales, int32_t *scores, int8_t *query,
                                    const float *bias, uint32_t bias_stride, uint32_t count, uint32_t heads,
                                    uint32_t head_dim, float scale, float qmax)
{
    colibri_state_attention_int8(out, q, keys, key_scales, values, value_scales, scores, query, bias, bias_stride, count,
                                 heads, head_dim, scale, qmax);
}
