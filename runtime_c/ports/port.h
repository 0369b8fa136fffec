/* port.h: the four calls that a program needs from the place where it runs.
 *
 * The model and the runtime never call these: only the programs in app/ do. Firmware that embeds the
 * model uses its own console and its own start-up and leaves the ports out.
 */
#ifndef COLIBRI_PORT_H
#define COLIBRI_PORT_H

#include <stddef.h>

/* Write n bytes to the console. */
void port_write(const void *bytes, size_t n);

/* Read up to n bytes of the request stream; fewer only at its end. Returns the number read. */
size_t port_read(void *bytes, size_t n);

/* Have the processor stop at what it may forgive: division by zero, unaligned access. A port may be unable to. */
void port_strict(void);

/* Leave the program; the emulator or the shell sees the code (0 to 255). */
_Noreturn void port_exit(int code);

#endif
