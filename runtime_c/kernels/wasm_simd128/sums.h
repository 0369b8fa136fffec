/* sums.h: the four lanes of each of four vectors, added, WebAssembly SIMD. */
#ifndef COLIBRI_SUMS_H
#define COLIBRI_SUMS_H

#include <wasm_simd128.h>

static inline v128_t colibri_sums(v128_t a, v128_t b, v128_t c, v128_t d)
{
    const v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
    const v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), wasm_i32x4_shuffle(c, d, 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

#endif
