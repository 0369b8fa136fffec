/* stack.h: run a function on a stack whose place is known, so that an observer can tell how deep it went. */
#ifndef COLIBRI_PORT_STACK_H
#define COLIBRI_PORT_STACK_H

/* Returns what the function returns, or -1 without calling it when the guard below the stack cannot be set up.
 * Not reentrant. The function begins with its stack pointer at port_stack_top (on x86-64, where a call pushes its
 * return address, 8 bytes below), and uses nothing below port_stack_limit without a fault. */
int port_on_stack(int (*function)(void));

#endif
