/* stack.c: a stack with symbols at its ends. Only the test program uses it; the linker leaves it out of others. */
#define _POSIX_C_SOURCE 200809L

#include "stack.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__) || defined(__arm__) || __riscv_xlen + 0 == 64)

#include <stddef.h>
#include <sys/mman.h>

#define STRING(x)  #x
#define TEXT_OF(x) STRING(x)

/* the guard is one page of the largest size that these processors have. */
#define GUARD_BYTES 65536
#define STACK_BYTES 262144
#define TOTAL_BYTES 327680

static unsigned char port_stack[TOTAL_BYTES] __attribute__((aligned(GUARD_BYTES)));
extern unsigned char port_stack_top[];

_Static_assert(GUARD_BYTES + STACK_BYTES == TOTAL_BYTES, "the assembler is given their sum");

__asm__(".globl port_stack_limit\n\t"
        ".globl port_stack_top\n\t"
        ".set port_stack_limit, port_stack + " TEXT_OF(GUARD_BYTES) "\n\t"
        ".set port_stack_top, port_stack + " TEXT_OF(TOTAL_BYTES));

/* in assembly, since no C compiler knows that the stack is another one meanwhile. The caller's stack pointer waits in
 * the frame pointer, which the function keeps. */
int port_call_at(int (*function)(void), void *top);

__asm__(".pushsection .text.port_call_at, \"ax\", %progbits\n\t"
        ".balign 16\n\t"
#if defined(__arm__)
        ".syntax unified\n\t"
#if defined(__thumb__)
        ".thumb\n\t"
#else
        ".arm\n\t"
#endif
#endif
        ".type port_call_at, %function\n"
        "port_call_at:\n\t"
#if defined(__x86_64__)
        "pushq %rbp\n\t"
        "movq  %rsp, %rbp\n\t"
        "movq  %rsi, %rsp\n\t"
        "call  *%rdi\n\t"
        "movq  %rbp, %rsp\n\t"
        "popq  %rbp\n\t"
        "ret\n\t"
#elif defined(__arm__)
        "push  {r7, lr}\n\t"
        "mov   r7, sp\n\t"
        "mov   sp, r1\n\t"
        "blx   r0\n\t"
        "mov   sp, r7\n\t"
        "pop   {r7, pc}\n\t"
#elif defined(__riscv)
        "addi  sp, sp, -16\n\t"
        "sd    ra, 8(sp)\n\t"
        "sd    s0, 0(sp)\n\t"
        "mv    s0, sp\n\t"
        "mv    sp, a1\n\t"
        "jalr  a0\n\t"
        "mv    sp, s0\n\t"
        "ld    s0, 0(sp)\n\t"
        "ld    ra, 8(sp)\n\t"
        "addi  sp, sp, 16\n\t"
        "ret\n\t"
#else
        "stp   x29, x30, [sp, #-16]!\n\t"
        "mov   x29, sp\n\t"
        "mov   sp, x1\n\t"
        "blr   x0\n\t"
        "mov   sp, x29\n\t"
        "ldp   x29, x30, [sp], #16\n\t"
        "ret\n\t"
#endif
        ".size port_call_at, . - port_call_at\n\t"
        ".popsection");

int port_on_stack(int (*function)(void))
{
    return mprotect(port_stack, GUARD_BYTES, PROT_NONE) == 0 ? port_call_at(function, port_stack_top) : -1;
}

#else

int port_on_stack(int (*function)(void))
{
    return function(); /* the system's own stack, of which nothing is known */
}

#endif
