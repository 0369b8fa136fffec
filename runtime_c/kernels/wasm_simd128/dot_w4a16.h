/* dot_w4a16.h: 4 rows of a 4-bit matrix times 16-bit activations, exactly, WebAssembly SIMD.
 *
 * Packing: [k / 32][4][16] bytes, 16-byte aligned at the matrix's start; byte c of a group holds column c in its low
 * and column c + 16 in its high half, each plus 8. factors: int8 [k / 32][4]. x: k values, k a multiple of 32, zero
 * padded. |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A16_H
#define COLIBRI_DOT_W4A16_H

#include <stdint.h>
#include <wasm_simd128.h>
#include "kernels/wasm_simd128/nibbles.h"
#include "kernels/wasm_simd128/sums.h"

#define COLIBRI_DOT_W4A16_ROWS 4

static inline void colibri_dot_w4a16(int32_t sum[COLIBRI_DOT_W4A16_ROWS], const uint8_t *restrict w,
                                    const uint8_t *restrict factors, const int16_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    v128_t total0 = wasm_i32x4_const_splat(0);
    v128_t total1 = total0;
    v128_t total2 = total0;
    v128_t total3 = total0;
    for (int i = 0; i < k; i += 32) {
        const v128_t values[4] = {wasm_v128_load(x + i), wasm_v128_load(x + i + 8),
                                  wasm_v128_load(x + i + 16), wasm_v128_load(x + i + 24)};
        const v128_t start = colibri_minus_eight(values);
        total0 = colibri_add_w4(total0, w, factor[0], start, values);
        total1 = colibri_add_w4(total1, w + 16, factor[1], start, values);
        total2 = colibri_add_w4(total2, w + 32, factor[2], start, values);
        total3 = colibri_add_w4(total3, w + 48, factor[3], start, values);
        factor += COLIBRI_DOT_W4A16_ROWS;
        w += 64;
    }
    wasm_v128_store(sum, colibri_sums(total0, total1, total2, total3));
}

#endif
