/* dot_f32.h: 4 rows of an fp32 matrix times fp32, each in ascending column: one accumulator a row.
 *
 * Packing: [k][4] floats: rows share what is loaded of x.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#define COLIBRI_DOT_F32_ROWS 4

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
    for (int i = 0; i < k; i++) {
        const float value = x[i];
        sum0 = sum0 + value * w[0];
        sum1 = sum1 + value * w[1];
        sum2 = sum2 + value * w[2];
        sum3 = sum3 + value * w[3];
        w += COLIBRI_DOT_F32_ROWS;
    }
    sum[0] = sum0;
    sum[1] = sum1;
    sum[2] = sum2;
    sum[3] = sum3;
}

#endif
