/* experts.h: add an expert's output with its weight, four values at a time; the first expert's is assigned.
 *
 * VMLA rounds its product before it adds, as two instructions do.
 */
#ifndef COLIBRI_EXPERTS_H
#define COLIBRI_EXPERTS_H

#include <stdbool.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/slots.h"

static inline void colibri_combine(float *restrict out, const float *restrict x, float weight, bool first, int width)
{
    const float *const end = x + width;
#ifdef COLIBRI_HAS_FPU
    for (int i = width / 4; i > 0; i--) {
        if (first) {
            __asm__("vldmia %[x]!, {s4, s5, s6, s7}\n\t"
                    "vmul.f32 s0, s4, %[weight]\n\t"
                    "vmul.f32 s1, s5, %[weight]\n\t"
                    "vmul.f32 s2, s6, %[weight]\n\t"
                    "vmul.f32 s3, s7, %[weight]\n\t"
                    "vstmia %[out]!, {s0, s1, s2, s3}"
                    : [x] "+r"(x), [out] "+r"(out)
                    : [weight] "t"(weight)
                    : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
        } else {
            __asm__("vldmia %[out], {s0, s1, s2, s3}\n\t"
                    "vldmia %[x]!, {s4, s5, s6, s7}\n\t"
                    "vmla.f32 s0, s4, %[weight]\n\t"
                    "vmla.f32 s1, s5, %[weight]\n\t"
                    "vmla.f32 s2, s6, %[weight]\n\t"
                    "vmla.f32 s3, s7, %[weight]\n\t"
                    "vstmia %[out]!, {s0, s1, s2, s3}"
                    : [x] "+r"(x), [out] "+r"(out)
                    : [weight] "t"(weight)
                    : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
        }
    }
#endif
    while (x != end) {
        const float term = weight * *x++;
        *out = first ? term : *out + term;
        out++;
    }
}

#endif
