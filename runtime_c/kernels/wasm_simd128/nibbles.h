/* nibbles.h: groups of 32 columns of 4 bits times integers of 16 bits, WebAssembly SIMD. */
#ifndef COLIBRI_NIBBLES_H
#define COLIBRI_NIBBLES_H

#include <stdint.h>
#include <wasm_simd128.h>

/* start plus a group's products, in 4 sums. low, high: columns 0 to 15 and 16 to 31, 8 bits each. */
static inline v128_t colibri_group(v128_t start, v128_t low, v128_t high, const v128_t values[4])
{
    start = wasm_i32x4_add(start, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(low), values[0]));
    start = wasm_i32x4_add(start, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(low), values[1]));
    start = wasm_i32x4_add(start, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(high), values[2]));
    return wasm_i32x4_add(start, wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(high), values[3]));
}

/* total plus a row's group of w4 times its factor. Nibbles are used as they lie, 0 to 15, so start is -8 times the
 * activations: (q - 8) x = q x - 8 x. */
static inline v128_t colibri_add_w4(v128_t total, const uint8_t *w, int32_t factor, v128_t start, const v128_t values[4])
{
    const v128_t bytes = wasm_v128_load(w);
    const v128_t low = wasm_v128_and(bytes, wasm_i8x16_const_splat(15));
    const v128_t high = wasm_u8x16_shr(bytes, 4);
    return wasm_i32x4_add(total, wasm_i32x4_mul(colibri_group(start, low, high, values), wasm_i32x4_splat(factor)));
}

/* A row's group of 4-bit floats, in 4 sums. twice: of e2m1.h. */
static inline v128_t colibri_part_fp4(const uint8_t *w, v128_t twice, const v128_t values[4])
{
    const v128_t bytes = wasm_v128_load(w);
    const v128_t low = wasm_i8x16_swizzle(twice, wasm_v128_and(bytes, wasm_i8x16_const_splat(15)));
    const v128_t high = wasm_i8x16_swizzle(twice, wasm_u8x16_shr(bytes, 4));
    return colibri_group(wasm_i32x4_const_splat(0), low, high, values);
}

/* -8 times a group's activations, in 4 sums. */
static inline v128_t colibri_minus_eight(const v128_t values[4])
{
    const v128_t minus_eight = wasm_i8x16_const_splat(-8);
    return colibri_group(wasm_i32x4_const_splat(0), minus_eight, minus_eight, values);
}

#endif
