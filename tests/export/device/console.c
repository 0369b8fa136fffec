/* console.c: puts() on the console of the package's port. */
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
