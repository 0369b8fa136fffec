/* dot_w8a8.h: 8 rows of an 8-bit matrix times 8-bit activations, exactly, with SDOT.
 *
 * A lane is a row: four of its columns meet the same four activations in each row, so nothing is left to add across
 * lanes. Three sums of each row are on their way at a time, since SDOT takes a few cycles. In assembler, since compilers move
 * pointers that a load could, an instruction each.
 * Packing: [k / 4][8][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <arm_neon.h>
#include <stdint.h>

#define COLIBRI_DOT_W8A8_ROWS 8

/* 8 columns of 8 rows; a lane of x has the activations of four of them. */
#define COLIBRI_EIGHT_W8A8(sum0, sum1, sum2, sum3, x, lane0, lane1)     \
    "   ld1     {v18.16b-v21.16b}, [%[w]], #64\n"                       \
    "   sdot    %[" sum0 "].4s, v18.16b, " x ".4b[" lane0 "]\n"         \
    "   sdot    %[" sum1 "].4s, v19.16b, " x ".4b[" lane0 "]\n"         \
    "   sdot    %[" sum2 "].4s, v20.16b, " x ".4b[" lane1 "]\n"         \
    "   sdot    %[" sum3 "].4s, v21.16b, " x ".4b[" lane1 "]\n"

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    int32x4_t sum0 = vdupq_n_s32(0);
    int32x4_t sum1 = vdupq_n_s32(0);
    int32x4_t sum2 = vdupq_n_s32(0);
    int32x4_t sum3 = vdupq_n_s32(0);
    int32x4_t sum4 = vdupq_n_s32(0);
    int32x4_t sum5 = vdupq_n_s32(0);
    if (k >= 32) {
        int turns = k / 32;
        __asm__(
            "1: ldp     q16, q17, [%[x]], #32\n"
            COLIBRI_EIGHT_W8A8("sum0", "sum1", "sum2", "sum3", "v16", "0", "1")
            COLIBRI_EIGHT_W8A8("sum4", "sum5", "sum0", "sum1", "v16", "2", "3")
            "   subs    %w[turns], %w[turns], #1\n"
            COLIBRI_EIGHT_W8A8("sum2", "sum3", "sum4", "sum5", "v17", "0", "1")
            COLIBRI_EIGHT_W8A8("sum0", "sum1", "sum2", "sum3", "v17", "2", "3")
            "   b.ne    1b"
            : [sum0] "+w"(sum0), [sum1] "+w"(sum1), [sum2] "+w"(sum2), [sum3] "+w"(sum3), [sum4] "+w"(sum4),
              [sum5] "+w"(sum5), [w] "+r"(w), [x] "+r"(x), [turns] "+r"(turns)
            :
            : "v16", "v17", "v18", "v19", "v20", "v21", "cc", "memory");
    }
    for (int i = k % 32; i > 0; i -= 4) {
        const int8x16_t four = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)x));
        sum0 = vdotq_s32(sum0, vreinterpretq_s8_u8(vld1q_u8(w)), four);
        sum1 = vdotq_s32(sum1, vreinterpretq_s8_u8(vld1q_u8(w + 16)), four);
        w += 32;
        x += 4;
    }
    vst1q_s32(sum, vaddq_s32(vaddq_s32(sum0, sum2), sum4));
    vst1q_s32(sum + 4, vaddq_s32(vaddq_s32(sum1, sum3), sum5));
}

#endif
