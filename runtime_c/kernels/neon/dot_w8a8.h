/* dot_w8a8.h: 8 rows of an 8-bit matrix times 8-bit activations, exactly, NEON.
 *
 * Two products meet in 16 bits, |w|, |x| <= 127: 2 * 127 * 127 < 2^15; SADALP adds neighbours to 32. In assembler, since
 * compilers move pointers that a load could, and load one register where an instruction can load four.
 * Packing: [k / 16][8][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/neon/rows.h"

#define COLIBRI_DOT_W8A8_ROWS 8

/* 16 columns of 4 rows. */
#define COLIBRI_FOUR_W8A8(sum0, sum1, sum2, sum3)             \
    "   ld1     {v18.16b-v21.16b}, [%[w]], #64\n"             \
    "   smull   v22.8h, v18.8b, v16.8b\n"                     \
    "   smull   v23.8h, v19.8b, v16.8b\n"                     \
    "   smull   v24.8h, v20.8b, v16.8b\n"                     \
    "   smull   v25.8h, v21.8b, v16.8b\n"                     \
    "   smlal2  v22.8h, v18.16b, v16.16b\n"                   \
    "   smlal2  v23.8h, v19.16b, v16.16b\n"                   \
    "   smlal2  v24.8h, v20.16b, v16.16b\n"                   \
    "   smlal2  v25.8h, v21.16b, v16.16b\n"                   \
    "   sadalp  %[" sum0 "].4s, v22.8h\n"                     \
    "   sadalp  %[" sum1 "].4s, v23.8h\n"                     \
    "   sadalp  %[" sum2 "].4s, v24.8h\n"                     \
    "   sadalp  %[" sum3 "].4s, v25.8h\n"

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    int32x4_t sum0 = vdupq_n_s32(0);
    int32x4_t sum1 = vdupq_n_s32(0);
    int32x4_t sum2 = vdupq_n_s32(0);
    int32x4_t sum3 = vdupq_n_s32(0);
    int32x4_t sum4 = vdupq_n_s32(0);
    int32x4_t sum5 = vdupq_n_s32(0);
    int32x4_t sum6 = vdupq_n_s32(0);
    int32x4_t sum7 = vdupq_n_s32(0);
    int turns = k / 16;
    __asm__(
        "1: ldr     q16, [%[x]], #16\n"
        COLIBRI_FOUR_W8A8("sum0", "sum1", "sum2", "sum3")
        "   subs    %w[turns], %w[turns], #1\n"
        COLIBRI_FOUR_W8A8("sum4", "sum5", "sum6", "sum7")
        "   b.ne    1b"
        : [sum0] "+w"(sum0), [sum1] "+w"(sum1), [sum2] "+w"(sum2), [sum3] "+w"(sum3), [sum4] "+w"(sum4),
          [sum5] "+w"(sum5), [sum6] "+w"(sum6), [sum7] "+w"(sum7), [w] "+r"(w), [x] "+r"(x), [turns] "+r"(turns)
        :
        : "v16", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "cc", "memory");
    vst1q_s32(sum, colibri_four_rows(sum0, sum1, sum2, sum3));
    vst1q_s32(sum + 4, colibri_four_rows(sum4, sum5, sum6, sum7));
}

#endif
