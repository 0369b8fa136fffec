/* shared.h: a kernel that is one function for all shapes, not one in each of its callers.
 *
 * For long bodies, whose code would be there once a shape. Optimised whatever the level is: their assembly may need
 * nearly all registers, of which gcc without optimisation leaves too few.
 */
#ifndef COLIBRI_SHARED_H
#define COLIBRI_SHARED_H

#if defined __GNUC__ && !defined __clang__
#define COLIBRI_SHARED static __attribute__((noinline, noclone, optimize("O2", "omit-frame-pointer")))
#else
#define COLIBRI_SHARED static __attribute__((noinline))
#endif

#endif
