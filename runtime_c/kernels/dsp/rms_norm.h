/* rms_norm.h: y = (x * (1 / sqrt(mean(x^2) + eps))) * w; the sum runs in 8 strided lanes, each of them in a register.
 *
 * VMLA rounds its product before it adds, as two instructions do.
 */
#ifndef COLIBRI_RMS_NORM_H
#define COLIBRI_RMS_NORM_H

#include "kernels/portable/float32.h"

static inline void colibri_rms_norm(float *restrict y, const float *restrict x, const float *restrict w, int width,
                                    float eps)
{
    float lane[8] = {0.0f};
    int done = 0;
#ifdef COLIBRI_HAS_FPU
    const float *restrict next = x;
    done = width & ~7;
    for (int i = width / 8; i > 0; i--) {
        __asm__("vldmia %[x]!, {s0, s1, s2, s3, s4, s5, s6, s7}\n\t"
                "vmla.f32 %[a], s0, s0\n\t"
                "vmla.f32 %[b], s1, s1\n\t"
                "vmla.f32 %[c], s2, s2\n\t"
                "vmla.f32 %[d], s3, s3\n\t"
                "vmla.f32 %[e], s4, s4\n\t"
                "vmla.f32 %[f], s5, s5\n\t"
                "vmla.f32 %[g], s6, s6\n\t"
                "vmla.f32 %[h], s7, s7"
                : [a] "+t"(lane[0]), [b] "+t"(lane[1]), [c] "+t"(lane[2]), [d] "+t"(lane[3]), [e] "+t"(lane[4]),
                  [f] "+t"(lane[5]), [g] "+t"(lane[6]), [h] "+t"(lane[7]), [x] "+r"(next)
                :
                : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
    }
#endif
    for (int i = done; i < width; i++) {
        lane[i & 7] += x[i] * x[i];
    }
    const float mean = colibri_lane_tree(lane) / (float)width;
    const float factor = 1.0f / colibri_sqrt(mean + eps);
    const float *const end = x + width;
#ifdef COLIBRI_HAS_FPU
    for (int i = width / 4; i > 0; i--) {
        __asm__("vldmia %[x]!, {s0, s1, s2, s3}\n\t"
                "vldmia %[w]!, {s4, s5, s6, s7}\n\t"
                "vmul.f32 s0, s0, %[factor]\n\t"
                "vmul.f32 s1, s1, %[factor]\n\t"
                "vmul.f32 s2, s2, %[factor]\n\t"
                "vmul.f32 s3, s3, %[factor]\n\t"
                "vmul.f32 s0, s0, s4\n\t"
                "vmul.f32 s1, s1, s5\n\t"
                "vmul.f32 s2, s2, s6\n\t"
                "vmul.f32 s3, s3, s7\n\t"
                "vstmia %[y]!, {s0, s1, s2, s3}"
                : [x] "+r"(x), [w] "+r"(w), [y] "+r"(y)
                : [factor] "t"(factor)
                : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
    }
#endif
    while (x != end) {
        *y++ = (*x++ * factor) * *w++;
    }
}

#endif
