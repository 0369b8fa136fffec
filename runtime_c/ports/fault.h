/* fault.h: how a port says that the program died: one line, for a person and for the host's parser alike.
 *
 *     !fault cause=0x3 pc=0x8000124 lr=0x8000119 sp=0x20000ff0 ...
 *
 * Names are the port's own; all values are hexadecimal. A register that could not be read has no field.
 */
#ifndef COLIBRI_FAULT_H
#define COLIBRI_FAULT_H

#include <stddef.h>
#include <stdint.h>

#define PORT_FAULT_EXIT 125 /* exit code of a program that a fault ended */

/* Begin the line, add a field, close the line and leave. They use less than 200 bytes of stack. */
void port_fault_begin(void);
void port_fault_field(const char *name, uintptr_t value);
_Noreturn void port_fault_end(void);

#endif
