/* fault.c: the fault line, without printf and with little stack. */
#include "fault.h"

#include "port.h"

void port_fault_begin(void)
{
    /* the program may have died in the middle of a line. */
    static const char text[] = "\n!fault";

    port_write(text, sizeof text - 1);
}

void port_fault_field(const char *name, uintptr_t value)
{
    enum { DIGITS = 2 * sizeof value };
    char text[DIGITS + 3];
    size_t at = sizeof text;
    size_t length = 0;
    uintptr_t rest = value;

    do {
        text[--at] = "0123456789abcdef"[rest & 0xF];
        rest >>= 4;
    } while (rest != 0);
    text[--at] = 'x';
    text[--at] = '0';
    text[--at] = '=';

    while (name[length] != '\0') {
        length++;
    }
    port_write(" ", 1);
    port_write(name, length);
    port_write(&text[at], sizeof text - at);
}

void port_fault_end(void)
{
    port_write("\n", 1);
    port_exit(PORT_FAULT_EXIT);
}
