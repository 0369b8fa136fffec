/* row_kernels.c: kernels of rows, of one folder, under the names of row_harness.h.
 *
 * Compile with ROW(name) (what a name becomes) and the folder's headers by -include, its own before the portable ones.
 */
#include <stdint.h>
#include "kernels/portable/add.h"
#include "kernels/portable/attend_int8.h"
#include "kernels/portable/attention_int8.h"
#include "kernels/portable/experts.h"
#include "kernels/portable/linear.h"
#include "kernels/portable/quantise.h"
#include "kernels/portable/rms_norm.h"
#include "kernels/portable/rope.h"
#include "row_harness.h"

float ROW(largest)(const float *x, int k)
{
    return colibri_largest(x, k);
}

float ROW(quantise8)(int8_t *y, const float *x, int k, float qmax)
{
    return colibri_quantise8_by(y, x, k, colibri_largest(x, k), qmax);
}

float ROW(quantise16)(int16_t *y, const float *x, int k, int stride, float qmax)
{
    float scale;
    colibri_quantise16(y, &scale, x, k, stride, qmax);
    return scale;
}

uint16_t ROW(store)(int8_t *y, const float *x, uint32_t width)
{
    uint16_t scale;
    colibri_store_int8(y, &scale, x, width);
    return scale;
}

void ROW(grouped)(float *y, const int32_t *sum, const uint16_t *row_scale, const float *bias, float x_scale, int count)
{
    colibri_store_grouped(y, sum, row_scale, bias, x_scale, count);
}

void ROW(norm)(float *y, const float *x, const float *w, int width)
{
    colibri_rms_norm(y, x, w, width, 1e-5f);
}

/* The row's function where the folder has one. */
void ROW(silu_times)(float *up, const float *gate, uint32_t count)
{
#ifdef WHOLE_ROWS
    colibri_silu_times(up, gate, count);
#else
    for (uint32_t i = 0; i < count; i++) {
        up[i] = colibri_silu(gate[i]) * up[i];
    }
#endif
}

void ROW(add)(float *x, const float *y, int count)
{
    colibri_add(x, y, count);
}

void ROW(combine)(float *out, const float *x, float weight, int first, int width)
{
    colibri_combine(out, x, weight, first != 0, width);
}

/* Position 5 of steps of 4. */
void ROW(rope)(float *x, const float *coarse, const float *fine, uint32_t heads, uint32_t head_dim)
{
    colibri_rope(x, coarse, fine, 5, 4, heads, head_dim);
}

void ROW(dots)(int32_t *sums, const int8_t *x, const int8_t *rows, uint32_t stride, uint32_t count, uint32_t width)
{
    colibri_dot_rows_int8(sums, x, rows, stride, count, width);
}

void ROW(attend)(float *out, const float *q, const int8_t *keys, const uint16_t *key_scales, const int8_t *values,
                 const uint16_t *value_scales, int32_t *scores, int8_t *query, uint32_t count, uint32_t kv_heads,
                 uint32_t head_dim)
{
    colibri_attend_int8(out, q, keys, key_scales, values, value_scales, scores, query, NULL, NULL, count, kv_heads,
                        head_dim, 0.25f, 127.0f);
}

/* Two heads of keys and values. */
void ROW(attention)(float *out, const float *q, const float *k, const float *v, int8_t *keys, uint16_t *key_scales,
                    int8_t *values, uint16_t *value_scales, int32_t *scores, int8_t *query, const float *sinks,
                    uint32_t position, uint32_t heads, uint32_t head_dim, uint32_t capacity, int chunked)
{
    colibri_attention_int8(out, q, k, v, keys, key_scales, values, value_scales, scores, query, sinks, position, heads,
                           2, head_dim, capacity, chunked != 0, 0.25f, 127.0f);
}
