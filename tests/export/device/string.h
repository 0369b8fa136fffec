/* string.h: stands in for a C library, which the compilers of ci/setup come without. */
#ifndef STAND_IN_STRING_H
#define STAND_IN_STRING_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
#ifdef __cplusplus
}
#endif
#endif
