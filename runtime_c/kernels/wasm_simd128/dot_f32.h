/* dot_f32.h: 4 rows of an fp32 matrix times one vector, WebAssembly SIMD.
 *
 * A lane is a row, so each row keeps its one accumulator, added in ascending column.
 * Packing: [k][4] fp32, 16-byte aligned at the matrix's start. x: k values.
 */
#ifndef COLIBRI_DOT_F32_H
#define COLIBRI_DOT_F32_H

#include <wasm_simd128.h>
#include "kernels/portable/unroll.h"

#define COLIBRI_DOT_F32_ROWS 4

static inline void colibri_dot_f32(float sum[COLIBRI_DOT_F32_ROWS], const float *restrict w, const float *restrict x,
                                   int k)
{
    v128_t total = wasm_f32x4_const_splat(0.0f);
    COLIBRI_IN_EIGHTS
    for (int i = 0; i < k; i++) {
        total = wasm_f32x4_add(total, wasm_f32x4_mul(wasm_v128_load(w + 4 * i), wasm_v128_load32_splat(x + i)));
    }
    wasm_v128_store(sum, total);
}

#endif
