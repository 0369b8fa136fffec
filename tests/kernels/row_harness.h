/* row_harness.h: kernels of rows by the names that row_harness.c compares, for each of two folders. */
#ifndef ROW_HARNESS_H
#define ROW_HARNESS_H

#include <stdint.h>

#define ROW_KERNELS(ROW)                                                                                               \
    float ROW(largest)(const float *x, int k);                                                                         \
    float ROW(quantise8)(int8_t * y, const float *x, int k, float qmax);                                               \
    float ROW(quantise16)(int16_t * y, const float *x, int k, int stride, float qmax);                                 \
    uint16_t ROW(store)(int8_t * y, const float *x, uint32_t width);                                                   \
    void ROW(grouped)(float *y, const int32_t *sum, const uint16_t *row_scale, const float *bias, float x_scale,       \
                      int count);                                                                                      \
    void ROW(norm)(float *y, const float *x, const float *w, int width);                                               \
    void ROW(silu_times)(float *up, const float *gate, uint32_t count);                                                \
    void ROW(add)(float *x, const float *y, int count);                                                                \
    void ROW(combine)(float *out, const float *x, float weight, int first, int width);                                 \
    void ROW(rope)(float *x, const float *coarse, const float *fine, uint32_t heads, uint32_t head_dim);                \
    void ROW(dots)(int32_t * sums, const int8_t *x, const int8_t *rows, uint32_t stride, uint32_t count,               \
                   uint32_t width);                                                                                    \
    void ROW(attend)(float *out, const float *q, const int8_t *keys, const uint16_t *key_scales, const int8_t *values, \
                     const uint16_t *value_scales, int32_t *scores, int8_t *query, uint32_t count, uint32_t kv_heads,  \
                     uint32_t head_dim);                                                                               \
    void ROW(attention)(float *out, const float *q, const float *k, const float *v, int8_t *keys,                      \
                        uint16_t *key_scales, int8_t *values, uint16_t *value_scales, int32_t *scores, int8_t *query,  \
                        const float *sinks, uint32_t position, uint32_t heads, uint32_t head_dim, uint32_t capacity,   \
                        int chunked);

#define PORTABLE(name) portable_##name
#define OWN(name) own_##name

ROW_KERNELS(PORTABLE)
ROW_KERNELS(OWN)

#endif
