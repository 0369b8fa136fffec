/* unroll.h: loops that compilers else unroll by their length, leave alone, or vectorise to no use.
 *
 * Clang and zig for WebAssembly and RISC-V do dot products in eights: eight columns a turn save up to a third of the
 * instructions where one element is done at a time, and with -fno-unroll-loops besides, the size of the code can be told
 * before it is compiled. Gcc does better alone.
 */
#ifndef COLIBRI_UNROLL_H
#define COLIBRI_UNROLL_H

#if defined(__clang__) && (defined(__wasm__) || defined(__riscv))
#define COLIBRI_IN_EIGHTS _Pragma("clang loop unroll_count(8)")
#else
#define COLIBRI_IN_EIGHTS
#endif

/* For a loop with steps that lie apart in memory: of four turns clang makes one, with vectors filled element by element. */
#if defined(__clang__)
#define COLIBRI_ONE_BY_ONE _Pragma("clang loop vectorize(disable)")
#else
#define COLIBRI_ONE_BY_ONE
#endif

#endif
