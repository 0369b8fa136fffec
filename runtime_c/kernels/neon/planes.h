/* planes.h: 32 columns of a row of integers of 2 to 6 bits, NEON, and what a group's factor and zero point make of them.
 *
 * Packing, portable/planes.h: [plane][4 rows][4 * bits of the plane] bytes.
 */
#ifndef COLIBRI_NEON_PLANES_H
#define COLIBRI_NEON_PLANES_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

typedef struct colibri_columns {
    uint8x16_t first; /* columns 0 to 15 */
    uint8x16_t second;
} colibri_columns;

/* Each shift of 8 or 4 bytes, one lower than that of those before by step; negative ones are to the right. */
static inline int8x16_t colibri_shifts(int first, int step, int bytes)
{
    const int8_t shifts[4] = {(int8_t)first, (int8_t)(first - step), (int8_t)(first - 2 * step),
                              (int8_t)(first - 3 * step)};
    return bytes == 8 ? vcombine_s8(vdup_n_s8(shifts[0]), vdup_n_s8(shifts[1]))
                      : vcombine_s8(vext_s8(vdup_n_s8(shifts[0]), vdup_n_s8(shifts[1]), 4),
                                    vext_s8(vdup_n_s8(shifts[2]), vdup_n_s8(shifts[3]), 4));
}

/* A plane of 2 bits, moved to the left by so many. */
static inline colibri_columns colibri_pairs(const uint8_t *w, int left)
{
    const uint8x8_t bytes = vld1_u8(w);
    const uint8x16_t twice = vcombine_u8(bytes, bytes);
    const uint8x16_t mask = vdupq_n_u8((uint8_t)(3 << left));
    const colibri_columns columns = {vandq_u8(vshlq_u8(twice, colibri_shifts(left, 2, 8)), mask),
                                     vandq_u8(vshlq_u8(twice, colibri_shifts(left - 4, 2, 8)), mask)};
    return columns;
}

/* A plane of 1 bit. */
static inline colibri_columns colibri_singles(const uint8_t *w, int left)
{
    uint32_t bits;
    __builtin_memcpy(&bits, w, sizeof bits);
    const uint8x16_t often = vreinterpretq_u8_u32(vdupq_n_u32(bits));
    const uint8x16_t mask = vdupq_n_u8((uint8_t)(1 << left));
    const colibri_columns columns = {vandq_u8(vshlq_u8(often, colibri_shifts(left, 1, 4)), mask),
                                     vandq_u8(vshlq_u8(often, colibri_shifts(left - 4, 1, 4)), mask)};
    return columns;
}

/* Those of a row in a tile of four, 0 to 2^bits - 1. bits is a constant. */
COLIBRI_INSIDE colibri_columns colibri_columns_of(const uint8_t *w, int row, int bits)
{
    colibri_columns low;
    if (bits >= 4) {
        const uint8x16_t bytes = vld1q_u8(w + 16 * row);
        low.first = vandq_u8(bytes, vdupq_n_u8(15));
        low.second = vshrq_n_u8(bytes, 4);
    } else {
        low = colibri_pairs(w + 8 * row, 0);
    }
    if (bits == 2 || bits == 4) {
        return low;
    }
    const colibri_columns high = bits == 6   ? colibri_pairs(w + 64 + 8 * row, 4)
                                 : bits == 5 ? colibri_singles(w + 64 + 4 * row, 4)
                                             : colibri_singles(w + 32 + 4 * row, 2);
    low.first = vorrq_u8(low.first, high.first);
    low.second = vorrq_u8(low.second, high.second);
    return low;
}

/* Four bytes, with a sign or without, as 32 bits each. */
static inline int32x4_t colibri_four_signed(const uint8_t *bytes)
{
    uint32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)))));
}

static inline int32x4_t colibri_four_unsigned(const uint8_t *bytes)
{
    uint32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))));
}

/* total plus the products of four rows with 32 columns, of one group: part as the integers lie, values of the
 * activations. factors, zeros (or NULL): of the group.
 */
static inline int32x4_t colibri_add_planes(int32x4_t total, int32x4_t part, int32_t values, const uint8_t *factors,
                                           const uint8_t *zeros, int bits)
{
    const int32x4_t factor = colibri_four_signed(factors);
    if (zeros == NULL) {
        return vmlaq_s32(total, vsubq_s32(part, vdupq_n_s32(values * (1 << (bits - 1)))), factor);
    }
    const int32x4_t product = vmulq_s32(colibri_four_unsigned(zeros), factor);
    const int32x4_t units = vshlq_s32(product, vdupq_n_s32(bits - 8)); /* colibri_zero of each row */
    return vmlsq_n_s32(vmlaq_s32(total, part, factor), units, values);
}

#endif
