/* shared.h: which kernels are one function for all shapes, and which a part of each of their callers.
 *
 * COLIBRI_SHARED is for long bodies, whose code would be there once a shape, and those that would lack registers inside
 * another; COLIBRI_INSIDE for short ones that gain by a constant length. A compiler left to choose does so by what else
 * is in a program, and nobody could say how large that becomes.
 */
#ifndef COLIBRI_SHARED_H
#define COLIBRI_SHARED_H

/* COLIBRI_ASSEMBLY needs nearly all registers, of which gcc without optimisation leaves too few: it is optimised
 * whatever the level, with what is COLIBRI_INSIDE it. No float operation of C may be in it, since gcc then forgets what
 * -O2 alone does not say. A header may have one for a tile and one for a whole matrix, of which a model needs one. */
#define COLIBRI_INSIDE static inline __attribute__((always_inline))
#if defined __GNUC__ && !defined __clang__
#define COLIBRI_SHARED static __attribute__((noinline, noclone, unused))
#define COLIBRI_ASSEMBLY static __attribute__((noinline, noclone, unused, optimize("O2", "omit-frame-pointer")))
#else
#define COLIBRI_SHARED static __attribute__((noinline, unused))
#define COLIBRI_ASSEMBLY static __attribute__((noinline, unused))
#endif

#endif
