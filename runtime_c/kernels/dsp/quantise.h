/* quantise.h: one row of activations to integers, with its scale, for Cortex-M with the DSP extension.
 *
 * As portable/quantise.h. With an FPU, an x that is finite needs no bounds, since rounding cannot take it beyond +-qmax:
 * four at once are scaled, and the low halves of x + 1.5 * 2^23 are the integers. A row with an infinity or a NaN takes
 * the long way: the only values that decide how many instructions run.
 * Integers of 16 bits stand at 4-byte aligned addresses, those of 8 bits at any.
 */
#ifndef COLIBRI_QUANTISE_H
#define COLIBRI_QUANTISE_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"

#define COLIBRI_QUIET 0x1p-100f

#define COLIBRI_LARGER_BITS(x)         \
    "cmp %[top], " x ", lsl #1\n\t"    \
    "it lo\n\t"                        \
    "lsllo %[top], " x ", #1\n\t"

/* The largest magnitude's bits, shifted left by one: infinities and NaN included. */
static inline uint32_t colibri_largest_bits(const float *restrict x, int k)
{
    const float *const end = x + k;
    uint32_t top = 0;
    for (int i = k / 4; i > 0; i--) {
        __asm__("ldmia %[x]!, {r4, r5, r6, r8}\n\t"
                COLIBRI_LARGER_BITS("r4") COLIBRI_LARGER_BITS("r5") COLIBRI_LARGER_BITS("r6") COLIBRI_LARGER_BITS("r8")
                : [top] "+r"(top), [x] "+r"(x)
                :
                : "r4", "r5", "r6", "r8", "cc", "memory");
    }
    while (x != end) {
        top = colibri_most(top, (uint32_t)colibri_bits(*x++) << 1);
    }
    return top;
}

/* The largest magnitude; NaN counts as 0. finite: whether there is neither a NaN nor an infinity. */
COLIBRI_SHARED float colibri_largest_finite(bool *restrict finite, const float *restrict x, int k)
{
    uint32_t top = colibri_largest_bits(x, k);
    *finite = top < 0xFF000000;
    if (top > 0xFF000000) {
        top = 0;
        for (int i = 0; i < k; i++) {
            const uint32_t magnitude = (uint32_t)colibri_bits(x[i]) << 1;
            top = colibri_most(top, magnitude > 0xFF000000 ? 0 : magnitude);
        }
    }
    return colibri_from_bits((int32_t)(top >> 1));
}

static inline float colibri_largest(const float *x, int k)
{
    bool finite;
    return colibri_largest_finite(&finite, x, k);
}

/* Four x * inverse, rounded, in the low halves of a, b, c and d. */
#define COLIBRI_SCALE_FOUR                  \
    "vldmia %[x]!, {s0, s1, s2, s3}\n\t"    \
    "vmul.f32 s0, s0, %[inverse]\n\t"       \
    "vmul.f32 s1, s1, %[inverse]\n\t"       \
    "vmul.f32 s2, s2, %[inverse]\n\t"       \
    "vmul.f32 s3, s3, %[inverse]\n\t"       \
    "vadd.f32 s0, s0, %[round]\n\t"         \
    "vadd.f32 s1, s1, %[round]\n\t"         \
    "vadd.f32 s2, s2, %[round]\n\t"         \
    "vadd.f32 s3, s3, %[round]\n\t"         \
    "vmov %[a], %[b], s0, s1\n\t"           \
    "vmov %[c], %[d], s2, s3\n\t"

/* y = nearest(x * inverse), within +-qmax. */
COLIBRI_SHARED void colibri_scale16(int16_t *restrict y, const float *restrict x, int k, float inverse, float qmax,
                                    bool finite)
{
    const int16_t *const end = y + k;
#ifdef COLIBRI_HAS_FPU
    if (finite) {
        for (int i = k / 4; i > 0; i--) {
            uint32_t a;
            uint32_t b;
            uint32_t c;
            uint32_t d;
            __asm__(COLIBRI_SCALE_FOUR
                    "pkhbt %[a], %[a], %[b], lsl #16\n\t"
                    "pkhbt %[c], %[c], %[d], lsl #16\n\t"
                    "strd %[a], %[c], [%[y]], #8"
                    : [x] "+r"(x), [y] "+r"(y), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
                    : [inverse] "t"(inverse), [round] "t"(COLIBRI_ROUND)
                    : "s0", "s1", "s2", "s3", "memory");
        }
    }
#else
    (void)finite;
#endif
    while (y != end) {
        *y++ = (int16_t)colibri_nearest_scaled(*x++ * inverse, qmax);
    }
}

COLIBRI_SHARED void colibri_scale8(int8_t *restrict y, const float *restrict x, int k, float inverse, float qmax,
                                   bool finite)
{
    const int8_t *const end = y + k;
#ifdef COLIBRI_HAS_FPU
    if (finite && ((uintptr_t)y & 3) == 0) {
        for (int i = k / 4; i > 0; i--) {
            uint32_t a;
            uint32_t b;
            uint32_t c;
            uint32_t d;
            __asm__(COLIBRI_SCALE_FOUR
                    "pkhbt %[a], %[a], %[c], lsl #16\n\t"
                    "pkhbt %[b], %[b], %[d], lsl #16\n\t"
                    "uxtb16 %[a], %[a]\n\t"
                    "uxtb16 %[b], %[b]\n\t"
                    "orr %[a], %[a], %[b], lsl #8\n\t"
                    "str %[a], [%[y]], #4"
                    : [x] "+r"(x), [y] "+r"(y), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
                    : [inverse] "t"(inverse), [round] "t"(COLIBRI_ROUND)
                    : "s0", "s1", "s2", "s3", "memory");
        }
    }
#else
    (void)finite;
#endif
    while (y != end) {
        *y++ = (int8_t)colibri_nearest_scaled(*x++ * inverse, qmax);
    }
}

/* What to multiply a row with; scale: what to multiply its integers with. */
static inline float colibri_inverse(float *restrict scale, float top, float qmax)
{
    const bool live = top >= COLIBRI_QUIET;
    *scale = colibri_choose(live, top / qmax, 0.0f);
    return colibri_choose(live, qmax / colibri_choose(live, top, 1.0f), 0.0f);
}

/* One row of 8 bits with the largest magnitude given, of it or more, and no padding; returns the scale. */
static inline float colibri_quantise8_by(int8_t *restrict y, const float *restrict x, int k, float top, float qmax)
{
    float scale;
    const float inverse = colibri_inverse(&scale, top, qmax);
    colibri_scale8(y, x, k, inverse, qmax, colibri_largest_bits(x, k) < 0xFF000000);
    return scale;
}

static inline void colibri_quantise16(int16_t *restrict y, float *restrict scale, const float *restrict x, int k,
                                      int stride, float qmax)
{
    volatile int16_t *const padding = y; /* or stores would be merged into words that may not be aligned */
    bool finite;
    const float top = colibri_largest_finite(&finite, x, k);
    const float inverse = colibri_inverse(scale, top, qmax);
    colibri_scale16(y, x, k, inverse, qmax, finite);
    for (int i = k; i < stride; i++) {
        padding[i] = 0;
    }
}

#endif
