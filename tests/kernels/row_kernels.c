/* row_kernels.c: kernels of rows, of one folder, under the names of row_harness.h.
 *
 * Compile with ROW(name) (what a name becomes) and the folder's headers by -include, its own before the portable ones.
 */
#include <stdint.h>
#include "kernels/portable/attend_int8.h"
#include "kernels/portable/linear.h"
#include "kernels/portable/quantise.h"
#include "kernels/portable/rms_norm.h"
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
