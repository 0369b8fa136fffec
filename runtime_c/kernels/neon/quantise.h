/* quantise.h: one row of activations to integers, with its scale, NEON.
 *
 * As portable/quantise.h. Magnitudes are compared as integers, like which they are ordered; NaN counts as 0.
 */
#ifndef COLIBRI_QUANTISE_H
#define COLIBRI_QUANTISE_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

#define COLIBRI_QUIET 0x1p-100f

/* Bits of a magnitude twice, above a bias: of a NaN they pass 2^32 and count as less than those of zero. */
#define COLIBRI_ZERO 0x00FFFFFF

/* The largest magnitude; NaN counts as 0. */
static inline float colibri_largest(const float *x, int k)
{
    const uint32x4_t zero = vdupq_n_u32(COLIBRI_ZERO);
    uint32x4_t tops = zero;
    int i = 0;
    for (; i + 4 <= k; i += 4) {
        const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        tops = vmaxq_u32(tops, vaddq_u32(vshlq_n_u32(bits, 1), zero));
    }
    uint32_t top = vmaxvq_u32(tops);
    for (; i < k; i++) {
        top = colibri_most(top, ((uint32_t)colibri_bits(x[i]) << 1) + COLIBRI_ZERO);
    }
    return colibri_from_bits((int32_t)((top - COLIBRI_ZERO) >> 1));
}

/* Four of x * inverse as integers within +-qmax, ties to even; NaN is -qmax. */
static inline int32x4_t colibri_integers(const float *x, float inverse, float qmax)
{
    const float32x4_t scaled = vmulq_n_f32(vld1q_f32(x), inverse);
    return vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(scaled, vdupq_n_f32(-qmax)), vdupq_n_f32(qmax)));
}

/* Eight of them. */
static inline int16x8_t colibri_packed(const float *x, float inverse, float qmax)
{
    return vmovn_high_s32(vmovn_s32(colibri_integers(x, inverse, qmax)), colibri_integers(x + 4, inverse, qmax));
}

/* The same with the largest magnitude given, and no padding; returns the scale. */
static inline float colibri_quantise8_by(int8_t *restrict y, const float *restrict x, int k, float top, float qmax)
{
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    int i = 0;
    for (; i + 8 <= k; i += 8) {
        vst1_s8(y + i, vmovn_s16(colibri_packed(x + i, inverse, qmax)));
    }
    for (; i < k; i++) {
        y[i] = (int8_t)colibri_nearest_scaled(x[i] * inverse, qmax);
    }
    return colibri_choose(live, top / qmax, 0.0f);
}

static inline void colibri_quantise8(int8_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                     int stride, float qmax)
{
    *scale = colibri_quantise8_by(y, x, k, colibri_largest(x, k), qmax);
    for (int i = k; i < stride; i++) {
        y[i] = 0;
    }
}

static inline void colibri_quantise16(int16_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                      int stride, float qmax)
{
    const float top = colibri_largest(x, k);
    const bool live = top >= COLIBRI_QUIET;
    const float inverse = colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
    *scale = colibri_choose(live, top / qmax, 0.0f);
    int i = 0;
    for (; i + 8 <= k; i += 8) {
        vst1q_s16(y + i, colibri_packed(x + i, inverse, qmax));
    }
    for (; i < k; i++) {
        y[i] = (int16_t)colibri_nearest_scaled(x[i] * inverse, qmax);
    }
    for (i = k; i < stride; i++) {
        y[i] = 0;
    }
}

#endif
