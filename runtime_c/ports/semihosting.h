/* semihosting.h: the trap by which a bare-metal program asks its emulator or debugger for a service.
 *
 * Which instruction traps depends on where the image runs, so the build says it with one macro:
 *   PORT_TRAP_BKPT    Arm M profile, a whole emulated board or a debug probe
 *   PORT_TRAP_SVC     Arm M profile code as a program under a user-mode emulator
 *   PORT_TRAP_EBREAK  RISC-V
 * On a chip without a debugger the trap is a fault: images that run alone need another console.
 */
#ifndef COLIBRI_SEMIHOSTING_H
#define COLIBRI_SEMIHOSTING_H

#include <stdint.h>

enum semihosting_operation {
    SEMIHOSTING_OPEN = 0x01,          /* name, mode, length of name -> handle, or -1 */
    SEMIHOSTING_WRITE = 0x05,         /* handle, address, bytes     -> bytes not written */
    SEMIHOSTING_READ = 0x06,          /* handle, address, bytes     -> bytes not read */
    SEMIHOSTING_EXIT_EXTENDED = 0x20, /* reason, exit code */
};

enum {
    SEMIHOSTING_MODE_READ = 1,  /* as fopen's "rb" */
    SEMIHOSTING_MODE_WRITE = 4, /* as fopen's "w"; with the name ":tt" it is the standard output */

    SEMIHOSTING_APPLICATION_EXIT = 0x20026, /* the reason of an exit that the program wanted */
};

/* Trap with an operation and its block of word-sized arguments; returns the host's answer. */
intptr_t semihosting_call(uintptr_t operation, const uintptr_t *block);

#endif
