/* dot_f32.h: 4 rows of an fp32 matrix times fp32, each in ascending column: one accumulator a row.
 *
 * VMLA rounds its product before it adds, as two instructions do; VFMA would not. Four columns take 21 instructions.
 * Packing: [k][4] floats: rows share what is loaded of x.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include "kernels/portable/float32.h"

#define COLIBRI_DOT_F32_ROWS 4

#define COLIBRI_DOT_F32_COLUMN(x)            \
    "vldmia %[w]!, {s4, s5, s6, s7}\n\t"     \
    "vmla.f32 %[sum0], s4, " x "\n\t"        \
    "vmla.f32 %[sum1], s5, " x "\n\t"        \
    "vmla.f32 %[sum2], s6, " x "\n\t"        \
    "vmla.f32 %[sum3], s7, " x "\n\t"

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    const float *const end = x + k;
    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
#ifdef COLIBRI_HAS_FPU
    for (int i = k / 4; i > 0; i--) {
        __asm__("vldmia %[x]!, {s0, s1, s2, s3}\n\t"
                COLIBRI_DOT_F32_COLUMN("s0") COLIBRI_DOT_F32_COLUMN("s1")
                COLIBRI_DOT_F32_COLUMN("s2") COLIBRI_DOT_F32_COLUMN("s3")
                : [sum0] "+t"(sum0), [sum1] "+t"(sum1), [sum2] "+t"(sum2), [sum3] "+t"(sum3), [x] "+r"(x), [w] "+r"(w)
                :
                : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
    }
#endif
    while (x != end) {
        const float value = *x++;
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
