/* wide.h: sums of 64 bits of four rows, whose groups have powers of two, NEON. */
#ifndef COLIBRI_NEON_WIDE_H
#define COLIBRI_NEON_WIDE_H

#include <arm_neon.h>
#include <stdint.h>

typedef struct colibri_wide {
    int64x2_t rows01;
    int64x2_t rows23;
} colibri_wide;

/* total plus each row's part times 2 to its exponent, of four bytes; one above 31, as a damaged file may have, does no
 * harm. */
static inline colibri_wide colibri_add_wide(colibri_wide total, int32x4_t parts, const uint8_t *exponents)
{
    uint32_t four;
    __builtin_memcpy(&four, exponents, sizeof four);
    const uint16x8_t shorts = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    const int32x4_t powers = vshlq_s32(vdupq_n_s32(1), vmovl_s16(vget_low_s16(vreinterpretq_s16_u16(shorts))));
    total.rows01 = vmlal_s32(total.rows01, vget_low_s32(parts), vget_low_s32(powers));
    total.rows23 = vmlal_high_s32(total.rows23, parts, powers);
    return total;
}

static inline void colibri_store_four_wide(int64_t sum[4], colibri_wide total)
{
    vst1q_s64(sum, total.rows01);
    vst1q_s64(sum + 2, total.rows23);
}

#endif
