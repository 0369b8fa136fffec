/* dot_w8a8.h: 16 rows of an 8-bit matrix times 8-bit activations, exactly, SVE with vectors of any length.
 *
 * A lane is a row: four of its columns meet the same four activations in each row. Sixteen lanes are one vector of 512
 * bits or more, of which a part is used, or two of less. Vectors of 128 bits are NEON's, which loads four with one
 * instruction.
 * Packing: [k / 4][16][4] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 4, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <arm_neon.h>
#include <arm_sve.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 16

/* 4 columns of 16 rows in vectors of 128 bits; a lane of x has the activations. */
#define COLIBRI_FOUR_W8A8(lane)                                            \
    "   ld1     {v18.16b-v21.16b}, [%[w]], #64\n"                          \
    "   sdot    %[sum0].4s, v18.16b, v16.4b[" lane "]\n"                   \
    "   sdot    %[sum1].4s, v19.16b, v16.4b[" lane "]\n"                   \
    "   sdot    %[sum2].4s, v20.16b, v16.4b[" lane "]\n"                   \
    "   sdot    %[sum3].4s, v21.16b, v16.4b[" lane "]\n"

static inline void colibri_short_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                      const int8_t *restrict x, int k)
{
    int32x4_t sum0 = vdupq_n_s32(0);
    int32x4_t sum1 = vdupq_n_s32(0);
    int32x4_t sum2 = vdupq_n_s32(0);
    int32x4_t sum3 = vdupq_n_s32(0);
    int turns = k / 16;
    if (turns > 0) {
        __asm__(
            "1: ldr     q16, [%[x]], #16\n"
            COLIBRI_FOUR_W8A8("0")
            COLIBRI_FOUR_W8A8("1")
            "   subs    %w[turns], %w[turns], #1\n"
            COLIBRI_FOUR_W8A8("2")
            COLIBRI_FOUR_W8A8("3")
            "   b.ne    1b"
            : [sum0] "+w"(sum0), [sum1] "+w"(sum1), [sum2] "+w"(sum2), [sum3] "+w"(sum3), [w] "+r"(w), [x] "+r"(x),
              [turns] "+r"(turns)
            :
            : "v16", "v18", "v19", "v20", "v21", "cc", "memory");
    }
    for (int i = k % 16; i > 0; i -= 4) {
        const int8x16_t four = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)x));
        sum0 = vdotq_s32(sum0, vreinterpretq_s8_u8(vld1q_u8(w)), four);
        sum1 = vdotq_s32(sum1, vreinterpretq_s8_u8(vld1q_u8(w + 16)), four);
        sum2 = vdotq_s32(sum2, vreinterpretq_s8_u8(vld1q_u8(w + 32)), four);
        sum3 = vdotq_s32(sum3, vreinterpretq_s8_u8(vld1q_u8(w + 48)), four);
        w += 64;
        x += 4;
    }
    vst1q_s32(sum, sum0);
    vst1q_s32(sum + 4, sum1);
    vst1q_s32(sum + 8, sum2);
    vst1q_s32(sum + 12, sum3);
}

/* Vectors that hold 16 rows, or more than a quarter of them, then two. */
COLIBRI_INSIDE void colibri_long_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const int8_t *restrict w,
                                      const int8_t *restrict x, int k, bool two)
{
    const svbool_t bytes0 = svwhilelt_b8_s32(0, 64);
    const svbool_t bytes1 = svwhilelt_b8_s32((int32_t)svcntb(), 64);
    svint32_t sum0 = svdup_n_s32(0);
    svint32_t sum1 = svdup_n_s32(0);
    int i = 0;
    for (; i + 16 <= k; i += 16) {
        const svint8_t values = svld1rq_s8(svptrue_b8(), x + i);
        sum0 = svdot_lane_s32(sum0, svld1_s8(bytes0, w), values, 0);
        sum0 = svdot_lane_s32(sum0, svld1_s8(bytes0, w + 64), values, 1);
        sum0 = svdot_lane_s32(sum0, svld1_s8(bytes0, w + 128), values, 2);
        sum0 = svdot_lane_s32(sum0, svld1_s8(bytes0, w + 192), values, 3);
        if (two) {
            const int8_t *const others = w + svcntb();
            sum1 = svdot_lane_s32(sum1, svld1_s8(bytes1, others), values, 0);
            sum1 = svdot_lane_s32(sum1, svld1_s8(bytes1, others + 64), values, 1);
            sum1 = svdot_lane_s32(sum1, svld1_s8(bytes1, others + 128), values, 2);
            sum1 = svdot_lane_s32(sum1, svld1_s8(bytes1, others + 192), values, 3);
        }
        w += 256;
    }
    for (; i < k; i += 4) {
        int32_t four;
        __builtin_memcpy(&four, x + i, sizeof four);
        const svint8_t values = svreinterpret_s8_s32(svdup_n_s32(four));
        sum0 = svdot_s32(sum0, svld1_s8(bytes0, w), values);
        if (two) {
            sum1 = svdot_s32(sum1, svld1_s8(bytes1, w + svcntb()), values);
        }
        w += 64;
    }
    svst1_s32(svwhilelt_b32_s32(0, 16), sum, sum0);
    if (two) {
        svst1_s32(svwhilelt_b32_s32((int32_t)svcntw(), 16), sum + svcntw(), sum1);
    }
}

COLIBRI_SHARED void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                     const int8_t *restrict x, int k)
{
    if (svcntw() >= COLIBRI_DOT_W8A8_ROWS) {
        colibri_long_w8a8(sum, (const int8_t *)w, x, k, false);
    } else if (svcntw() > COLIBRI_DOT_W8A8_ROWS / 4) {
        colibri_long_w8a8(sum, (const int8_t *)w, x, k, true);
    } else {
        colibri_short_w8a8(sum, w, x, k);
    }
}

#endif
