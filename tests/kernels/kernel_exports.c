/* kernel_exports.c: the portable kernels as functions of a shared library, for the tests; compiled with AVX2 those of
 * kernels/avx2 where it has them. */
#ifdef __AVX2__
#include "kernels/avx2/float32.h"
#include "kernels/avx2/add.h"
#include "kernels/avx2/add_weighted.h"
#include "kernels/avx2/attention.h"
#include "kernels/avx2/clip.h"
#include "kernels/avx2/experts.h"
#include "kernels/avx2/layer_norm.h"
#include "kernels/avx2/linear.h"
#include "kernels/avx2/quantise.h"
#include "kernels/avx2/rms_norm.h"
#include "kernels/avx2/rope.h"
#include "kernels/avx2/router.h"
#else
#include "kernels/portable/add.h"
#include "kernels/portable/add_weighted.h"
#include "kernels/portable/attention.h"
#include "kernels/portable/clip.h"
#include "kernels/portable/experts.h"
#include "kernels/portable/layer_norm.h"
#include "kernels/portable/linear.h"
#include "kernels/portable/quantise.h"
#include "kernels/portable/rms_norm.h"
#include "kernels/portable/rope.h"
#include "kernels/portable/router.h"
#endif

#include "kernels/portable/rows_int8.h"

#include "kernels/portable/attention_int8.h"
#include "kernels/portable/embedding.h"
#include "kernels/portable/embedding_fp4.h"
#include "kernels/portable/embedding_pairs.h"
#include "kernels/portable/embedding_planes.h"
#include "kernels/portable/embedding_lanes.h"
#include "kernels/portable/embedding_plus128.h"
#include "kernels/portable/embedding_quads.h"
#include "kernels/portable/grouped_router.h"
#include "kernels/portable/keep.h"
#include "kernels/portable/last_row.h"
#include "kernels/portable/latent_attention.h"
#include "kernels/portable/latent_attention_int8.h"
#include "kernels/portable/position_scale.h"
#include "kernels/portable/recall.h"
#include "kernels/portable/sparse_mixer.h"
#include "kernels/portable/state_attention.h"
#include "kernels/portable/state_attention_int8.h"

/* test_NAME(y, x, count): y = NAME(x) for each element. */
#define EACH(name, to, from)                                \
    void test_##name(to *y, const from *x, uint32_t count); \
    void test_##name(to *y, const from *x, uint32_t count)  \
    {                                                       \
        for (uint32_t i = 0; i < count; i++) {              \
            y[i] = colibri_##name(x[i]);                    \
        }                                                   \
    }

/* test_NAME with the kernel's own parameters. */
#define EXPORT(name, params, args) \
    void test_##name params;       \
    void test_##name params        \
    {                              \
        colibri_##name args;       \
    }

void test_nearest_scaled(int32_t *y, const float *x, uint32_t count, float most);

void test_nearest_scaled(int32_t *y, const float *x, uint32_t count, float most)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_nearest_scaled(x[i], most);
    }
}

/* Of each row [rows][width]. */
void test_largest(float *y, const float *x, uint32_t rows, uint32_t width);

void test_largest(float *y, const float *x, uint32_t rows, uint32_t width)
{
    for (uint32_t i = 0; i < rows; i++) {
        y[i] = colibri_largest(x + i * width, (int)width);
    }
}

void test_nearest_within(int32_t *y, const float *x, uint32_t count, float most);

void test_nearest_within(int32_t *y, const float *x, uint32_t count, float most)
{
    for (uint32_t i = 0; i < count; i++) {
        y[i] = colibri_nearest_within(x[i], most);
    }
}

EACH(sqrt, float, float)
EACH(exp, float, float)
EACH(identity, float, float)
EACH(relu, float, float)
EACH(sigmoid, float, float)
EACH(silu, float, float)
EACH(tanh, float, float)
EACH(gelu, float, float)
EACH(gelu_tanh, float, float)
EACH(canonical, float, float)
EACH(nearest, int32_t, float)
EACH(from_wide, float, int64_t)
EACH(from_f16, float, uint16_t)
EACH(to_f16, uint16_t, float)

/* Of whole rows: what the generated C of boards without such functions does in a loop. */
#ifdef __AVX2__
#define ROWS(name)                                                                         \
    EXPORT(name##_row, (float *x, uint32_t count), (x, count))                             \
    EXPORT(name##_times, (float *up, const float *gate, uint32_t count), (up, gate, count))
EXPORT(clipped_swiglu_row, (float *up, const float *gate, uint32_t count, float alpha, float limit),
       (up, gate, count, alpha, limit))
#else
#define ROWS(name)                                                                         \
    void test_##name##_row(float *x, uint32_t count);                                      \
    void test_##name##_row(float *x, uint32_t count)                                       \
    {                                                                                      \
        for (uint32_t i = 0; i < count; i++) {                                             \
            x[i] = colibri_##name(x[i]);                                                   \
        }                                                                                  \
    }                                                                                      \
    void test_##name##_times(float *up, const float *gate, uint32_t count);                \
    void test_##name##_times(float *up, const float *gate, uint32_t count)                 \
    {                                                                                      \
        for (uint32_t i = 0; i < count; i++) {                                             \
            up[i] = colibri_##name(gate[i]) * up[i];                                       \
        }                                                                                  \
    }

void test_clipped_swiglu_row(float *up, const float *gate, uint32_t count, float alpha, float limit);

void test_clipped_swiglu_row(float *up, const float *gate, uint32_t count, float alpha, float limit)
{
    for (uint32_t i = 0; i < count; i++) {
        up[i] = colibri_clipped_swiglu(gate[i], up[i], alpha, limit);
    }
}
#endif

ROWS(identity)
ROWS(relu)
ROWS(silu)
ROWS(sigmoid)
ROWS(tanh)
ROWS(gelu)
ROWS(gelu_tanh)

EXPORT(add, (float *x, const float *y, int count), (x, y, count))
EXPORT(add_weighted, (float *x, const float *y, float score, int width), (x, y, score, width))
EXPORT(clip, (float *x, float limit, int count), (x, limit, count))
EXPORT(combine, (float *out, const float *x, float weight, bool first, int width), (out, x, weight, first, width))
EXPORT(last_row, (float *out, const float *x, uint32_t row, uint32_t width), (out, x, row, width))
EXPORT(store, (float *y, const float *sum, const float *bias, int count), (y, sum, bias, count))
EXPORT(store_scaled,
       (float *y, const int32_t *sum, const float *row_scale, const float *bias, float x_scale, int count),
       (y, sum, row_scale, bias, x_scale, count))
EXPORT(store_grouped,
       (float *y, const int32_t *sum, const uint16_t *row_scale, const float *bias, float x_scale, int count),
       (y, sum, row_scale, bias, x_scale, count))
EXPORT(store_wide,
       (float *y, const int64_t *sum, const uint16_t *row_scale, const float *bias, float x_scale, int count),
       (y, sum, row_scale, bias, x_scale, count))
EXPORT(quantise8, (int8_t * y, float *scale, const float *x, int k, int stride, float qmax),
       (y, scale, x, k, stride, qmax))
EXPORT(quantise16, (int16_t * y, float *scale, const float *x, int k, int stride, float qmax),
       (y, scale, x, k, stride, qmax))
EXPORT(rms_norm, (float *y, const float *x, const float *w, int width, float eps), (y, x, w, width, eps))
EXPORT(rope,
       (float *x, const float *coarse, const float *fine, uint32_t position, uint32_t step, uint32_t heads,
        uint32_t head_dim),
       (x, coarse, fine, position, step, heads, head_dim))
EXPORT(rope_2, (float *x, const float *coarse, const float *fine, uint32_t position, uint32_t step, uint32_t heads),
       (x, coarse, fine, position, step, heads))
EXPORT(router, (uint32_t * index, float *weight, float *scores, uint32_t n, uint32_t k, bool renormalise),
       (index, weight, scores, n, k, renormalise))
EXPORT(embedding_f32,
       (float *out, const float *data, uint32_t token, uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded),
       (out, data, token, width, rows, cols, padded))
EXPORT(embedding_f16,
       (float *out, const uint16_t *data, uint32_t token, uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded),
       (out, data, token, width, rows, cols, padded))
EXPORT(embedding_pairs,
       (float *out, const uint16_t *data, const float *row_scale, uint32_t token, uint32_t width, uint32_t padded),
       (out, data, row_scale, token, width, padded))
EXPORT(embedding_quads,
       (float *out, const uint16_t *data, const uint8_t *factors, const uint8_t *tail, const uint16_t *columns,
        uint32_t count, const uint16_t *row_scale, uint32_t token, uint32_t width, uint32_t padded, uint32_t group),
       (out, data, factors, tail, columns, count, row_scale, token, width, padded, group))
EXPORT(embedding_planes,
       (float *out, const uint8_t *data, const uint8_t *factors, const uint8_t *zeros, const uint8_t *tail,
        const uint16_t *columns, uint32_t count, const uint16_t *row_scale, uint32_t token, uint32_t width, uint32_t rows,
        uint32_t padded, uint32_t bits, uint32_t group),
       (out, data, factors, zeros, tail, columns, count, row_scale, token, width, rows, padded, bits, group))
EXPORT(embedding_lanes,
       (float *out, const uint8_t *data, const uint8_t *factors, const uint8_t *tail, const uint16_t *columns,
        uint32_t count, const uint16_t *row_scale, uint32_t token, uint32_t width, uint32_t rows, uint32_t padded,
        uint32_t group),
       (out, data, factors, tail, columns, count, row_scale, token, width, rows, padded, group))
EXPORT(embedding_plus128,
       (float *out, const uint8_t *data, const float *row_scale, uint32_t token, uint32_t width, uint32_t rows,
        uint32_t cols, uint32_t padded),
       (out, data, row_scale, token, width, rows, cols, padded))
EXPORT(embedding_w8,
       (float *out, const uint8_t *data, const float *row_scale, uint32_t token, uint32_t width, uint32_t rows,
        uint32_t cols, uint32_t padded),
       (out, data, row_scale, token, width, rows, cols, padded))
EXPORT(embedding_w4,
       (float *out, const uint8_t *data, const uint8_t *group_scale, const uint16_t *row_scale, uint32_t token,
        uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded),
       (out, data, group_scale, row_scale, token, width, rows, cols, padded))
EXPORT(embedding_fp4,
       (float *out, const uint8_t *data, const uint8_t *group_scale, const uint16_t *row_scale, uint32_t token,
        uint32_t width, uint32_t rows, uint32_t cols, uint32_t padded),
       (out, data, group_scale, row_scale, token, width, rows, cols, padded))
EXPORT(attention_f32,
       (float *out, const float *q, const float *k, const float *v, float *keys, float *values, float *scores,
        const float *sinks, uint32_t position, uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
        bool chunked, float scale),
       (out, q, k, v, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked, scale))
EXPORT(attention_f16,
       (float *out, const float *q, const float *k, const float *v, uint16_t *keys, uint16_t *values, float *scores,
        const float *sinks, uint32_t position, uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
        bool chunked, float scale),
       (out, q, k, v, keys, values, scores, sinks, position, heads, kv_heads, head_dim, capacity, chunked, scale))
EXPORT(attention_int8,
       (float *out, const float *q, const float *k, const float *v, int8_t *keys, uint16_t *key_scales, int8_t *values,
        uint16_t *value_scales, int32_t *scores, int8_t *query, const float *sinks, uint32_t position, uint32_t heads,
        uint32_t kv_heads, uint32_t head_dim, uint32_t capacity, bool chunked, float scale, float qmax),
       (out, q, k, v, keys, key_scales, values, value_scales, scores, query, sinks, position, heads, kv_heads, head_dim,
        capacity, chunked, scale, qmax))
EXPORT(state_attention_f32,
       (float *out, const float *q, const float *keys, const float *values, float *scores, const float *bias,
        uint32_t bias_stride, uint32_t count, uint32_t heads, uint32_t head_dim, float scale),
       (out, q, keys, values, scores, bias, bias_stride, count, heads, head_dim, scale))
EXPORT(state_attention_f16,
       (float *out, const float *q, const uint16_t *keys, const uint16_t *values, float *scores, const float *bias,
        uint32_t bias_stride, uint32_t count, uint32_t heads, uint32_t head_dim, float scale),
       (out, q, keys, values, scores, bias, bias_stride, count, heads, head_dim, scale))
EXPORT(state_attention_int8,
       (float *out, const float *q, const int8_t *keys, const uint16_t *key_scales, const int8_t *values,
        const uint16_t *value_scales, int32_t *scores, int8_t *query, const float *bias, uint32_t bias_stride,
        uint32_t count, uint32_t heads, uint32_t head_dim, float scale, float qmax),
       (out, q, keys, key_scales, values, value_scales, scores, query, bias, bias_stride, count, heads, head_dim, scale,
        qmax))
EXPORT(keep_f32, (float *state, const float *x, uint32_t count), (state, x, count))
EXPORT(keep_f16, (uint16_t *state, const float *x, uint32_t count), (state, x, count))
EXPORT(keep_int8, (int8_t *state, uint16_t *scales, const float *x, uint32_t count, uint32_t width),
       (state, scales, x, count, width))
EXPORT(recall, (float *x, const float *state, uint32_t count), (x, state, count))
EXPORT(latent_attention_f32,
       (float *out, const float *q, const float *q_rope, const float *latent, const float *k_rope, float *latents,
        float *keys, float *scores, uint32_t position, uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale),
       (out, q, q_rope, latent, k_rope, latents, keys, scores, position, heads, rank, rope_dim, scale))
EXPORT(latent_attention_f16,
       (float *out, const float *q, const float *q_rope, const float *latent, const float *k_rope, uint16_t *latents,
        uint16_t *keys, float *scores, uint32_t position, uint32_t heads, uint32_t rank, uint32_t rope_dim,
        float scale),
       (out, q, q_rope, latent, k_rope, latents, keys, scores, position, heads, rank, rope_dim, scale))
EXPORT(latent_attention_int8,
       (float *out, const float *q, const float *q_rope, const float *latent, const float *k_rope, int8_t *latents,
        uint16_t *latent_scales, int8_t *keys, uint16_t *key_scales, int32_t *scores, int8_t *query, uint32_t position,
        uint32_t heads, uint32_t rank, uint32_t rope_dim, float scale, float qmax),
       (out, q, q_rope, latent, k_rope, latents, latent_scales, keys, key_scales, scores, query, position, heads, rank,
        rope_dim, scale, qmax))
EXPORT(grouped_router,
       (uint32_t * index, float *weight, float *scores, float *choice, float *value, const float *correction,
        const uint32_t *sizes, uint32_t n, uint32_t groups, uint32_t kept, uint32_t k, bool softmax, bool two_best,
        bool renormalise),
       (index, weight, scores, choice, value, correction, sizes, n, groups, kept, k, softmax, two_best, renormalise))
EXPORT(layer_norm, (float *y, const float *x, const float *w, const float *b, int width, float eps),
       (y, x, w, b, width, eps))
EXPORT(sparse_mixer, (uint32_t * index, float *weight, float *scores, float *near, uint32_t n, float width),
       (index, weight, scores, near, n, width))
EXPORT(position_scale, (float *x, const float *factor, uint32_t position, int width), (x, factor, position, width))
