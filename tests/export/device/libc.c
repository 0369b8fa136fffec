/* libc.c: the two functions of a C library that the exports' examples call: puts() on the console of the package's port,
 * and sqrtf(), which gcc calls for negative numbers unless it is told -fno-math-errno. */
#include "port/port.h"

#include <stdio.h>

int puts(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    port_write(text, length);
    port_write("\n", 1);
    return 0;
}

#ifdef __ARM_FP
float sqrtf(float x);
float sqrtf(float x)
{
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
}
#endif
