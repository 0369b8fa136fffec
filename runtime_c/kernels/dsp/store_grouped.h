/* store_grouped.h: scales, bias and store of sums of a matrix in groups, for Cortex-M with the DSP extension.
 *
 * As portable/store_grouped.h; a whole tile of four rows without a bias is stored at once, its scales 4-byte aligned.
 */
#ifndef COLIBRI_STORE_GROUPED_H
#define COLIBRI_STORE_GROUPED_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

typedef uint32_t __attribute__((may_alias)) colibri_two_scales;

/* An fp32 value by its upper 16 bits. */
static inline float colibri_from_upper(uint16_t upper)
{
    return colibri_from_bits((int32_t)((uint32_t)upper << 16));
}

/* Sums of four rows, their scales in halves of two words; without a float operation of C where there is an FPU. */
static inline void colibri_store_four(float *restrict y, const int32_t *restrict sum, uint32_t scale01,
                                      uint32_t scale23, float x_scale)
{
#ifdef COLIBRI_HAS_FPU
    __asm__ volatile(
        "vldmia %[sum], {s0, s1, s2, s3}\n\t"
        "bfc %[scale1], #0, #16\n\t"
        "bfc %[scale3], #0, #16\n\t"
        "vmov s4, s5, %[scale0], %[scale1]\n\t"
        "vmov s6, s7, %[scale2], %[scale3]\n\t"
        "vcvt.f32.s32 s0, s0\n\t"
        "vcvt.f32.s32 s1, s1\n\t"
        "vcvt.f32.s32 s2, s2\n\t"
        "vcvt.f32.s32 s3, s3\n\t"
        "vmul.f32 s0, s0, s4\n\t"
        "vmul.f32 s1, s1, s5\n\t"
        "vmul.f32 s2, s2, s6\n\t"
        "vmul.f32 s3, s3, s7\n\t"
        "vmul.f32 s0, s0, %[x_scale]\n\t"
        "vmul.f32 s1, s1, %[x_scale]\n\t"
        "vmul.f32 s2, s2, %[x_scale]\n\t"
        "vmul.f32 s3, s3, %[x_scale]\n\t"
        "vstmia %[y], {s0, s1, s2, s3}"
        : [scale1] "+r"(scale01), [scale3] "+r"(scale23)
        : [y] "r"(y), [sum] "r"(sum), [scale0] "r"(scale01 << 16), [scale2] "r"(scale23 << 16), [x_scale] "t"(x_scale)
        : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
#else
    y[0] = ((float)sum[0] * colibri_from_bits((int32_t)(scale01 << 16))) * x_scale;
    y[1] = ((float)sum[1] * colibri_from_bits((int32_t)(scale01 & 0xFFFF0000))) * x_scale;
    y[2] = ((float)sum[2] * colibri_from_bits((int32_t)(scale23 << 16))) * x_scale;
    y[3] = ((float)sum[3] * colibri_from_bits((int32_t)(scale23 & 0xFFFF0000))) * x_scale;
#endif
}

static inline void colibri_store_grouped(float *restrict y, const int32_t *restrict sum,
                                         const uint16_t *restrict row_scale, const float *restrict bias, float x_scale,
                                         int count)
{
    if (count == 4 && bias == NULL) {
        const colibri_two_scales *const scales = (const void *)row_scale;
        colibri_store_four(y, sum, scales[0], scales[1], x_scale);
        return;
    }
    for (int i = 0; i < count; i++) {
        float value = (float)sum[i] * colibri_from_upper(row_scale[i]);
        value = value * x_scale;
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

#endif
