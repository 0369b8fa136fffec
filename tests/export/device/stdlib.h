/* stdlib.h: stands in for a C library, which the compilers of ci/setup come without. */
#ifndef STAND_IN_STDLIB_H
#define STAND_IN_STDLIB_H
_Noreturn void exit(int code);
#endif
