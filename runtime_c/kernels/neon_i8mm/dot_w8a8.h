/* dot_w8a8.h: 8 rows of an 8-bit matrix times 8-bit activations, exactly, with SDOT, or 8 inputs with SMMLA.
 *
 * A vector has 8 columns of two rows: SMMLA multiplies them with 8 columns of two inputs, SDOT with the same 8 columns
 * twice. Of one input in assembler, since compilers move pointers that a load could, an instruction each.
 * Packing: [k / 8][8][8] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 8, zero padded.
 * 127 * 127 * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A8_H
#define COLIBRI_DOT_W8A8_H

#include <arm_neon.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_W8A8_ROWS 8
#define COLIBRI_DOT_W8A8_INPUTS 8

/* 8 columns of 8 rows. */
#define COLIBRI_EIGHT_W8A8                                                  \
    "   ld1r    {v16.2d}, [%[x]], #8\n"                                     \
    "   ld1     {v18.16b-v21.16b}, [%[w]], #64\n"                           \
    "   sdot    %[sum0].4s, v18.16b, v16.16b\n"                             \
    "   sdot    %[sum1].4s, v19.16b, v16.16b\n"                             \
    "   sdot    %[sum2].4s, v20.16b, v16.16b\n"                             \
    "   sdot    %[sum3].4s, v21.16b, v16.16b\n"

static inline void colibri_dot_w8a8(int32_t sum[COLIBRI_DOT_W8A8_ROWS], const uint8_t *restrict w,
                                    const int8_t *restrict x, int k)
{
    int32x4_t sum0 = vdupq_n_s32(0);
    int32x4_t sum1 = vdupq_n_s32(0);
    int32x4_t sum2 = vdupq_n_s32(0);
    int32x4_t sum3 = vdupq_n_s32(0);
    if (k >= 32) {
        int turns = k / 32;
        __asm__(
            "1:\n"
            COLIBRI_EIGHT_W8A8
            COLIBRI_EIGHT_W8A8
            "   subs    %w[turns], %w[turns], #1\n"
            COLIBRI_EIGHT_W8A8
            COLIBRI_EIGHT_W8A8
            "   b.ne    1b"
            : [sum0] "+w"(sum0), [sum1] "+w"(sum1), [sum2] "+w"(sum2), [sum3] "+w"(sum3), [w] "+r"(w), [x] "+r"(x),
              [turns] "+r"(turns)
            :
            : "v16", "v18", "v19", "v20", "v21", "cc", "memory");
    }
    for (int i = k % 32; i > 0; i -= 8) {
        const int8x8_t eight = vld1_s8(x);
        const int8x16_t twice = vcombine_s8(eight, eight);
        sum0 = vdotq_s32(sum0, vreinterpretq_s8_u8(vld1q_u8(w)), twice);
        sum1 = vdotq_s32(sum1, vreinterpretq_s8_u8(vld1q_u8(w + 16)), twice);
        sum2 = vdotq_s32(sum2, vreinterpretq_s8_u8(vld1q_u8(w + 32)), twice);
        sum3 = vdotq_s32(sum3, vreinterpretq_s8_u8(vld1q_u8(w + 48)), twice);
        w += 64;
        x += 8;
    }
    vst1q_s32(sum, vpaddq_s32(sum0, sum1));
    vst1q_s32(sum + 4, vpaddq_s32(sum2, sum3));
}

/* 8 columns of two inputs. */
static inline int8x16_t colibri_two_w8a8(const int8_t *x, const int8_t *next)
{
    return vcombine_s8(vld1_s8(x), vld1_s8(next));
}

/* Sums of 8 rows with two inputs: two rows a vector, each with the first and the second input. */
typedef struct colibri_sums_w8a8 {
    int32x4_t rows01;
    int32x4_t rows23;
    int32x4_t rows45;
    int32x4_t rows67;
} colibri_sums_w8a8;

static inline colibri_sums_w8a8 colibri_add_w8a8(colibri_sums_w8a8 sums, int8x16_t rows01, int8x16_t rows23,
                                                 int8x16_t rows45, int8x16_t rows67, int8x16_t values)
{
    sums.rows01 = vmmlaq_s32(sums.rows01, rows01, values);
    sums.rows23 = vmmlaq_s32(sums.rows23, rows23, values);
    sums.rows45 = vmmlaq_s32(sums.rows45, rows45, values);
    sums.rows67 = vmmlaq_s32(sums.rows67, rows67, values);
    return sums;
}

static inline void colibri_store_w8a8(int32_t sum[2 * COLIBRI_DOT_W8A8_ROWS], colibri_sums_w8a8 sums)
{
    vst1q_s32(sum, vuzp1q_s32(sums.rows01, sums.rows23));
    vst1q_s32(sum + 4, vuzp1q_s32(sums.rows45, sums.rows67));
    vst1q_s32(sum + 8, vuzp2q_s32(sums.rows01, sums.rows23));
    vst1q_s32(sum + 12, vuzp2q_s32(sums.rows45, sums.rows67));
}

/* The same for 8 inputs, whose sums follow each other. */
COLIBRI_SHARED void colibri_dot_w8a8_inputs(int32_t sum[COLIBRI_DOT_W8A8_INPUTS * COLIBRI_DOT_W8A8_ROWS],
                                            const uint8_t *restrict w, const int8_t *const x[COLIBRI_DOT_W8A8_INPUTS],
                                            int k)
{
    const int8_t *restrict tile = (const int8_t *)w;
    const int32x4_t zero = vdupq_n_s32(0);
    colibri_sums_w8a8 sums01 = {zero, zero, zero, zero};
    colibri_sums_w8a8 sums23 = sums01;
    colibri_sums_w8a8 sums45 = sums01;
    colibri_sums_w8a8 sums67 = sums01;
    const int8_t *const x0 = x[0];
    const int8_t *const x1 = x[1];
    const int8_t *const x2 = x[2];
    const int8_t *const x3 = x[3];
    const int8_t *const x4 = x[4];
    const int8_t *const x5 = x[5];
    const int8_t *const x6 = x[6];
    const int8_t *const x7 = x[7];
    for (int i = 0; i < k; i += 8) {
        const int8x16_t rows01 = vld1q_s8(tile);
        const int8x16_t rows23 = vld1q_s8(tile + 16);
        const int8x16_t rows45 = vld1q_s8(tile + 32);
        const int8x16_t rows67 = vld1q_s8(tile + 48);
        sums01 = colibri_add_w8a8(sums01, rows01, rows23, rows45, rows67, colibri_two_w8a8(x0 + i, x1 + i));
        sums23 = colibri_add_w8a8(sums23, rows01, rows23, rows45, rows67, colibri_two_w8a8(x2 + i, x3 + i));
        sums45 = colibri_add_w8a8(sums45, rows01, rows23, rows45, rows67, colibri_two_w8a8(x4 + i, x5 + i));
        sums67 = colibri_add_w8a8(sums67, rows01, rows23, rows45, rows67, colibri_two_w8a8(x6 + i, x7 + i));
        tile += 64;
    }
    colibri_store_w8a8(sum, sums01);
    colibri_store_w8a8(sum + 16, sums23);
    colibri_store_w8a8(sum + 32, sums45);
    colibri_store_w8a8(sum + 48, sums67);
}

#endif
