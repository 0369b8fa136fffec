/* dot_w8a8.h: a row of an 8-bit matrix times 8-bit activations, exactly, RISC-V vectors.
 *
 * Two products at most meet in 16 bits, |w|, |x| <= 127: 2 * 127 * 127 < 2^15; then all of a register group are added up
 * in 32. In assembler, since gcc 12 has no intrinsics.
 * Packing: [k] int8 a row. x: k values. 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 1

/* Compilers that do not know of vector registers do not use them either; clang takes it that assembler sets vl. */
#if __GNUC__ > 12
#define COLIBRI_CLOBBERS_W8A8 \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
    "v16", "vl", "vtype", "memory"
#elif defined __clang__
#define COLIBRI_CLOBBERS_W8A8 \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
    "v16", "memory"
#else
#define COLIBRI_CLOBBERS_W8A8 "memory"
#endif

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    long left = k;
    long first, second;
    __asm__(
        "   vsetivli    zero, 1, e32, m1, ta, ma\n"
        "   vmv.s.x     v16, zero\n"
        "1: vsetvli     %[first], %[left], e8, m4, ta, ma\n"
        "   vle8.v      v0, (%[w])\n"
        "   vle8.v      v4, (%[x])\n"
        "   vwmul.vv    v8, v0, v4\n"
        "   add         %[w], %[w], %[first]\n"
        "   add         %[x], %[x], %[first]\n"
        "   sub         %[left], %[left], %[first]\n"
        "   vsetvli     %[second], %[left], e8, m4, tu, ma\n"
        "   vle8.v      v0, (%[w])\n"
        "   vle8.v      v4, (%[x])\n"
        "   vwmacc.vv   v8, v0, v4\n"
        "   add         %[w], %[w], %[second]\n"
        "   add         %[x], %[x], %[second]\n"
        "   sub         %[left], %[left], %[second]\n"
        "   vsetvli     zero, %[first], e16, m8, ta, ma\n"
        "   vwredsum.vs v16, v8, v16\n"
        "   bnez        %[left], 1b\n"
        "   vsetivli    zero, 1, e32, m1, ta, ma\n"
        "   vmv.x.s     %[first], v16"
        : [w] "+r"(w), [x] "+r"(x), [left] "+r"(left), [first] "=&r"(first), [second] "=&r"(second)
        :
        : COLIBRI_CLOBBERS_W8A8);
    sum[0] = (int32_t)first;
}

#endif
