/* stdio.h: stands in for a C library, which the compilers of ci/setup come without. */
#ifndef STAND_IN_STDIO_H
#define STAND_IN_STDIO_H
#ifdef __cplusplus
extern "C" {
#endif
int puts(const char *text);
#ifdef __cplusplus
}
#endif
#endif
