/* dot_fp4a8.h: 4 rows of a matrix of 4-bit floats times 8-bit activations, exactly, WebAssembly SIMD.
 *
 * A swizzle looks up twice each float.
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, the bits of a float e2m1. group_scale: [k / 32][4], exponents of powers of two,
 * at most 20. x: k values, k a multiple of 32, zero padded. |x| <= qmax of the op, chosen so that
 * 12 * 2^20 * qmax * k < 2^53.
 */
#ifndef COLIBRI_DOT_FP4A8_H
#define COLIBRI_DOT_FP4A8_H

#include <stdint.h>
#include <wasm_simd128.h>
#include "kernels/portable/e2m1.h"
#include "kernels/wasm_simd128/nibbles.h"
#include "kernels/wasm_simd128/sums.h"

#define COLIBRI_DOT_FP4A8_ROWS 4

static inline void colibri_dot_fp4a8(int64_t sum[COLIBRI_DOT_FP4A8_ROWS], const uint8_t *restrict w,
                                     const uint8_t *restrict group_scale, const int8_t *restrict x, int k)
{
    const v128_t twice = wasm_v128_load(colibri_e2m1);
    v128_t total01 = wasm_i64x2_const_splat(0);
    v128_t total23 = total01;
    for (int i = 0; i < k; i += 32) {
        const v128_t values[4] = {wasm_i16x8_load8x8(x + i), wasm_i16x8_load8x8(x + i + 8),
                                  wasm_i16x8_load8x8(x + i + 16), wasm_i16x8_load8x8(x + i + 24)};
        const v128_t parts = colibri_sums(colibri_part_fp4(w, twice, values), colibri_part_fp4(w + 16, twice, values),
                                          colibri_part_fp4(w + 32, twice, values), colibri_part_fp4(w + 48, twice, values));
        const v128_t powers = wasm_i32x4_make(colibri_power(group_scale[0]), colibri_power(group_scale[1]),
                                              colibri_power(group_scale[2]), colibri_power(group_scale[3]));
        total01 = wasm_i64x2_add(total01, wasm_i64x2_extmul_low_i32x4(parts, powers));
        total23 = wasm_i64x2_add(total23, wasm_i64x2_extmul_high_i32x4(parts, powers));
        group_scale += COLIBRI_DOT_FP4A8_ROWS;
        w += 64;
    }
    wasm_v128_store(sum, total01);
    wasm_v128_store(sum + 2, total23);
}

#endif
