/* dot_w8a16.h: a row of an 8-bit matrix times 16-bit activations, exactly, RISC-V vectors.
 *
 * A lane's sum stays in 32 bits; at the end the lanes are added up. In assembler, since gcc 12 has no intrinsics.
 * Packing: [k] int8 a row. x: k values. |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no
 * sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>

#define COLIBRI_DOT_W8A16_ROWS 1

/* Compilers that do not know of vector registers do not use them either; clang takes it that assembler sets vl. */
#if __GNUC__ > 12
#define COLIBRI_CLOBBERS_W8A16 \
    "v0", "v1", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18", "v19", "v20", "v21", \
    "v22", "v23", "vl", "vtype", "memory"
#elif defined __clang__
#define COLIBRI_CLOBBERS_W8A16 \
    "v0", "v1", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18", "v19", "v20", "v21", \
    "v22", "v23", "memory"
#else
#define COLIBRI_CLOBBERS_W8A16 "memory"
#endif

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    long left = k;
    long lanes;
    __asm__(
        "   vsetvli     %[lanes], zero, e32, m8, ta, ma\n"
        "   vmv.v.i     v16, 0\n"
        "1: vsetvli     %[lanes], %[left], e16, m4, tu, ma\n"
        "   vle8.v      v0, (%[w])\n"
        "   vle16.v     v8, (%[x])\n"
        "   vsext.vf2   v4, v0\n"
        "   vwmacc.vv   v16, v4, v8\n"
        "   add         %[w], %[w], %[lanes]\n"
        "   sub         %[left], %[left], %[lanes]\n"
        "   add         %[lanes], %[lanes], %[lanes]\n"
        "   add         %[x], %[x], %[lanes]\n"
        "   bnez        %[left], 1b\n"
        "   vsetvli     %[lanes], zero, e32, m8, ta, ma\n"
        "   vmv.s.x     v0, zero\n"
        "   vredsum.vs  v0, v16, v0\n"
        "   vmv.x.s     %[lanes], v0"
        : [w] "+r"(w), [x] "+r"(x), [left] "+r"(left), [lanes] "=&r"(lanes)
        :
        : COLIBRI_CLOBBERS_W8A16);
    sum[0] = (int32_t)lanes;
}

#endif
