/* unroll.h: the loop of a dot product in eights, by compilers that else leave it alone or go by its length.
 *
 * Those are clang and zig where they have no vectors for it: eight columns a turn save up to a third of the
 * instructions there, and with -fno-unroll-loops besides, the size of the code can be told before it is compiled. Gcc
 * and vectorisers do better alone.
 */
#ifndef COLIBRI_UNROLL_H
#define COLIBRI_UNROLL_H

#if defined(__clang__) && ((defined(__wasm__) && !defined(__wasm_simd128__)) || defined(__riscv))
#define COLIBRI_IN_EIGHTS _Pragma("clang loop unroll_count(8)")
#else
#define COLIBRI_IN_EIGHTS
#endif

#endif
