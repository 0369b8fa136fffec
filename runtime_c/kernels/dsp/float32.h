/* float32.h: activations of whole rows, for Cortex-M with the DSP extension; all but silu_times value by value.
 *
 * silu(x) = x / (1 + e^-x), e^-x as portable/float32.h has it, in its order: n is -r there, so that all products of it
 * have the other sign and are subtracted. |x| is at most 88 here: beyond, e^-x is that of 88 there, too, or so small that
 * 1 + e^-x is 1. Of a NaN the numerator is one. VMLA rounds its product before it adds, as two instructions do.
 */
#ifndef COLIBRI_FLOAT32_DSP_H
#define COLIBRI_FLOAT32_DSP_H

#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/value_by_value.h"

#ifdef COLIBRI_HAS_FPU
/* The magnitude in a register, within 88. */
#define COLIBRI_SILU_WITHIN(x)                  \
    "cmp %[twice], " x ", lsl #1\n\t"           \
    "it lo\n\t"                                 \
    "bfilo " x ", %[most], #0, #31\n\t"

/* p = c - p * n of two values. */
#define COLIBRI_SILU_STEP(c)                    \
    "vmul.f32 s4, s4, s2\n\t"                   \
    "vmul.f32 s5, s5, s3\n\t"                   \
    "vsub.f32 s4, " c ", s4\n\t"                \
    "vsub.f32 s5, " c ", s5\n\t"

/* up = silu(gate) * up of pairs of values: 59 instructions a pair. */
COLIBRI_SHARED void colibri_silu_pairs(float *restrict up, const float *restrict gate, const float *end)
{
    while (gate != end) {
        uint32_t a;
        uint32_t b;
        __asm__("ldrd %[a], %[b], [%[gate]], #8\n\t"
                "vmov s0, s1, %[a], %[b]\n\t"
                COLIBRI_SILU_WITHIN("%[a]") COLIBRI_SILU_WITHIN("%[b]")
                "vmov s2, s3, %[a], %[b]\n\t" /* x, which becomes n */
                "vmul.f32 s4, s2, %[log2_e]\n\t"
                "vmul.f32 s5, s3, %[log2_e]\n\t"
                "vadd.f32 s4, s4, %[round]\n\t"
                "vadd.f32 s5, s5, %[round]\n\t"
                "vmov %[a], %[b], s4, s5\n\t"
                "vsub.f32 s4, s4, %[round]\n\t"
                "vsub.f32 s5, s5, %[round]\n\t"
                "vmla.f32 s2, s4, %[high]\n\t"
                "vmla.f32 s3, s5, %[high]\n\t"
                "vmla.f32 s2, s4, %[low]\n\t"
                "vmla.f32 s3, s5, %[low]\n\t"
                "add %[a], %[exponent], %[a], lsl #23\n\t"
                "add %[b], %[exponent], %[b], lsl #23\n\t"
                "vmul.f32 s4, s2, %[c6]\n\t"
                "vmul.f32 s5, s3, %[c6]\n\t"
                "vsub.f32 s4, %[c5], s4\n\t"
                "vsub.f32 s5, %[c5], s5\n\t"
                COLIBRI_SILU_STEP("%[c4]") COLIBRI_SILU_STEP("%[c3]") COLIBRI_SILU_STEP("%[c2]")
                COLIBRI_SILU_STEP("%[one]") COLIBRI_SILU_STEP("%[one]")
                "vmov s2, s3, %[a], %[b]\n\t"
                "vmul.f32 s4, s4, s2\n\t"
                "vmul.f32 s5, s5, s3\n\t"
                "vadd.f32 s4, s4, %[one]\n\t"
                "vadd.f32 s5, s5, %[one]\n\t"
                "vldmia %[up], {s2, s3}\n\t"
                "vdiv.f32 s0, s0, s4\n\t"
                "vdiv.f32 s1, s1, s5\n\t"
                "vmul.f32 s0, s0, s2\n\t"
                "vmul.f32 s1, s1, s3\n\t"
                "vstmia %[up]!, {s0, s1}"
                : [up] "+r"(up), [gate] "+r"(gate), [a] "=&r"(a), [b] "=&r"(b)
                : [twice] "r"(0x42B00000u << 1), [most] "r"(0x42B00000u), [exponent] "r"(127u << 23),
                  [log2_e] "t"(-0x1.715476p+0f), [round] "t"(COLIBRI_ROUND), [high] "t"(0x1.63p-1f),
                  [low] "t"(-0x1.bd0106p-13f), [c6] "t"(1.0f / 720.0f), [c5] "t"(1.0f / 120.0f),
                  [c4] "t"(1.0f / 24.0f), [c3] "t"(1.0f / 6.0f), [c2] "t"(0.5f), [one] "t"(1.0f)
                : "s0", "s1", "s2", "s3", "s4", "s5", "cc", "memory");
    }
}

static inline void colibri_silu_times(float *restrict up, const float *restrict gate, uint32_t count)
{
    const uint32_t whole = count & ~1u;
    colibri_silu_pairs(up, gate, gate + whole);
    if (whole != count) {
        float last[2] = {up[whole], 0.0f};
        const float by[2] = {gate[whole], 0.0f};
        colibri_silu_pairs(last, by, by + 2);
        up[whole] = last[0];
    }
}
#else
COLIBRI_TIMES_BY_VALUES(silu)
#endif

#endif
