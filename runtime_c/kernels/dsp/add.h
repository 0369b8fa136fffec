/* add.h: x += y, elementwise, four at a time.
 */
#ifndef COLIBRI_ADD_H
#define COLIBRI_ADD_H

#include "kernels/portable/float32.h"

static inline void colibri_add(float *restrict x, const float *restrict y, int count)
{
    const float *const end = y + count;
#ifdef COLIBRI_HAS_FPU
    for (int i = count / 4; i > 0; i--) {
        __asm__("vldmia %[x], {s0, s1, s2, s3}\n\t"
                "vldmia %[y]!, {s4, s5, s6, s7}\n\t"
                "vadd.f32 s0, s0, s4\n\t"
                "vadd.f32 s1, s1, s5\n\t"
                "vadd.f32 s2, s2, s6\n\t"
                "vadd.f32 s3, s3, s7\n\t"
                "vstmia %[x]!, {s0, s1, s2, s3}"
                : [x] "+r"(x), [y] "+r"(y)
                :
                : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "memory");
    }
#endif
    while (y != end) {
        *x = *x + *y++;
        x++;
    }
}

#endif
