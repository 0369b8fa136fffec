/* dot_w8a16.h: 4 rows of an 8-bit matrix times 16-bit activations, exactly, WebAssembly SIMD.
 *
 * Packing: [k / 16][4][16] int8, 16-byte aligned at the matrix's start. x: k values, k a multiple of 16, zero padded.
 * |w| <= 127 and |x| <= qmax of the op, chosen so that 127 * qmax * k < 2^31: no sum overflows, in any order.
 */
#ifndef COLIBRI_DOT_W8A16_H
#define COLIBRI_DOT_W8A16_H

#include <stdint.h>
#include <wasm_simd128.h>
#include "kernels/wasm_simd128/sums.h"

#define COLIBRI_DOT_W8A16_ROWS 4

/* total plus a row's 16 products, in 4 sums. */
static inline v128_t colibri_add_w8a16(v128_t total, const uint8_t *w, v128_t first, v128_t second)
{
    total = wasm_i32x4_add(total, wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(w), first));
    return wasm_i32x4_add(total, wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(w + 8), second));
}

static inline void colibri_dot_w8a16(int32_t sum[COLIBRI_DOT_W8A16_ROWS], const uint8_t *restrict w,
                                     const int16_t *restrict x, int k)
{
    v128_t total0 = wasm_i32x4_const_splat(0);
    v128_t total1 = total0;
    v128_t total2 = total0;
    v128_t total3 = total0;
    for (int i = 0; i < k; i += 16) {
        const v128_t first = wasm_v128_load(x + i);
        const v128_t second = wasm_v128_load(x + i + 8);
        total0 = colibri_add_w8a16(total0, w, first, second);
        total1 = colibri_add_w8a16(total1, w + 16, first, second);
        total2 = colibri_add_w8a16(total2, w + 32, first, second);
        total3 = colibri_add_w8a16(total3, w + 48, first, second);
        w += 64;
    }
    wasm_v128_store(sum, colibri_sums(total0, total1, total2, total3));
}

#endif
