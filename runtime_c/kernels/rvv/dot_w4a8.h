/* dot_w4a8.h: 4 rows of a 4-bit matrix times 8-bit activations, exactly, RISC-V vectors.
 *
 * A group of 32 columns takes 16 lanes, which any vector register has; longer ones are used in part. A lane's two
 * products of a group meet in 16 bits; times the group's scale they join the lane's sum in 32. In assembler, since gcc 12
 * has no intrinsics.
 * Packing: [k / 32][4][16] bytes; byte c of a group holds column c in its low and column c + 16 in its high half, each
 * plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero padded. |w| <= 8 * 127 and |x| <= qmax of the
 * op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W4A8_ROWS 4

/* Compilers that do not know of vector registers do not use them either; clang takes it that assembler sets vl. */
#if __GNUC__ > 12
#define COLIBRI_CLOBBERS_W4A8 \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18", "v19", \
    "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "vl", "vtype", "memory"
#elif defined __clang__
#define COLIBRI_CLOBBERS_W4A8 \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17", "v18", "v19", \
    "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory"
#else
#define COLIBRI_CLOBBERS_W4A8 "memory"
#endif

/* part, 16 bits a lane, = a row's group times the activations in v0 and v1. */
#define COLIBRI_PART_W4A8(part)               \
    "   vle8.v      v2, (%[w])\n"             \
    "   addi        %[w], %[w], 16\n"         \
    "   vsrl.vi     v3, v2, 4\n"              \
    "   vand.vi     v2, v2, 15\n"             \
    "   vadd.vi     v3, v3, -8\n"             \
    "   vadd.vi     v2, v2, -8\n"             \
    "   vwmul.vv    " part ", v2, v0\n"       \
    "   vwmacc.vv   " part ", v3, v1\n"

/* total, 32 bits a lane, plus the factor at a place times the part. */
#define COLIBRI_SCALE_W4A8(total, at, part)   \
    "   lb          %[t], " at "(%[factors])\n" \
    "   vwmacc.vx   " total ", %[t], " part "\n"

/* sum of a row = the total of all its lanes. */
#define COLIBRI_SUM_W4A8(at, total)           \
    "   vredsum.vs  v1, " total ", v0\n"      \
    "   vmv.x.s     %[t], v1\n"               \
    "   sw          %[t], " at "(%[sum])\n"

COLIBRI_ASSEMBLY void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                       const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    long left = k;
    long t;
    __asm__ volatile(
        "   vsetivli    zero, 16, e32, m4, ta, ma\n"
        "   vmv.v.i     v16, 0\n"
        "   vmv.v.i     v20, 0\n"
        "   vmv.v.i     v24, 0\n"
        "   vmv.v.i     v28, 0\n"
        "1: vsetivli    zero, 16, e8, m1, ta, ma\n"
        "   vle8.v      v0, (%[x])\n"
        "   addi        %[x], %[x], 16\n"
        "   vle8.v      v1, (%[x])\n"
        "   addi        %[x], %[x], 16\n"
        COLIBRI_PART_W4A8("v4")
        COLIBRI_PART_W4A8("v6")
        COLIBRI_PART_W4A8("v8")
        COLIBRI_PART_W4A8("v10")
        "   vsetivli    zero, 16, e16, m2, ta, ma\n"
        COLIBRI_SCALE_W4A8("v16", "0", "v4")
        COLIBRI_SCALE_W4A8("v20", "1", "v6")
        COLIBRI_SCALE_W4A8("v24", "2", "v8")
        COLIBRI_SCALE_W4A8("v28", "3", "v10")
        "   addi        %[factors], %[factors], 4\n"
        "   addi        %[left], %[left], -32\n"
        "   bnez        %[left], 1b\n"
        "   vsetivli    zero, 16, e32, m4, ta, ma\n"
        "   vmv.s.x     v0, zero\n"
        COLIBRI_SUM_W4A8("0", "v16")
        COLIBRI_SUM_W4A8("4", "v20")
        COLIBRI_SUM_W4A8("8", "v24")
        COLIBRI_SUM_W4A8("12", "v28")
        : [w] "+r"(w), [factors] "+r"(factors), [x] "+r"(x), [left] "+r"(left), [t] "=&r"(t)
        : [sum] "r"(sum)
        : COLIBRI_CLOBBERS_W4A8);
}

#endif
