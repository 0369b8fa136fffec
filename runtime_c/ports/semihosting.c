/* semihosting.c: port.h on the host's standard output and on the file request.bin in its current folder. */
#include "semihosting.h"

#include <stdbool.h>
#include <stddef.h>

#include "port.h"

struct channel {
    bool tried; /* the host was asked, whatever it said */
    intptr_t handle;
};

/* the console and the request stream are devices: there is one of each, so its state is the port's. */
static struct channel console;
static struct channel requests;

/* ---- the trap ------------------------------------------------------------------------------------------- */

#if defined(PORT_TRAP_BKPT) || defined(PORT_TRAP_SVC)

intptr_t semihosting_call(uintptr_t operation, const uintptr_t *block)
{
    register uintptr_t r0 __asm__("r0") = operation;
    register const uintptr_t *r1 __asm__("r1") = block;

#if defined(PORT_TRAP_BKPT)
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory", "cc");
#else
    __asm__ volatile("svc 0xAB" : "+r"(r0) : "r"(r1) : "memory", "cc");
#endif
    return (intptr_t)r0;
}

#elif defined(PORT_TRAP_EBREAK)

/* the host recognises this exact run of uncompressed instructions, and only within one page: hence the
 * alignment, and no relaxation that could move it. */
__asm__(".pushsection .text.semihosting_call, \"ax\", @progbits\n"
        ".option push\n"
        ".option norvc\n"
        ".option norelax\n"
        ".balign 16\n"
        ".globl semihosting_call\n"
        ".type semihosting_call, @function\n"
        "semihosting_call:\n"
        "    slli x0, x0, 0x1f\n"
        "    ebreak\n"
        "    srai x0, x0, 7\n"
        "    ret\n"
        ".size semihosting_call, . - semihosting_call\n"
        ".option pop\n"
        ".popsection\n");

#else
#error "say how the image reaches its host: -DPORT_TRAP_BKPT, -DPORT_TRAP_SVC or -DPORT_TRAP_EBREAK"
#endif

/* ---- port.h --------------------------------------------------------------------------------------------- */

/* The channel's handle, opened on first use; negative when the host refuses. */
static intptr_t handle_of(struct channel *channel, const char *name, size_t length, uintptr_t mode)
{
    if (!channel->tried) {
        const uintptr_t block[3] = {(uintptr_t)name, mode, length};

        channel->tried = true;
        channel->handle = semihosting_call(SEMIHOSTING_OPEN, block);
    }
    return channel->handle;
}

void port_write(const void *bytes, size_t n)
{
    static const char name[] = ":tt";
    const intptr_t handle = handle_of(&console, name, sizeof name - 1, SEMIHOSTING_MODE_WRITE);

    if (handle >= 0 && n > 0) {
        const uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)bytes, n};

        (void)semihosting_call(SEMIHOSTING_WRITE, block);
    }
}

size_t port_read(void *bytes, size_t n)
{
    static const char name[] = "request.bin";
    const intptr_t handle = handle_of(&requests, name, sizeof name - 1, SEMIHOSTING_MODE_READ);

    if (handle < 0 || n == 0) {
        return 0;
    }
    const uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)bytes, n};
    const intptr_t missing = semihosting_call(SEMIHOSTING_READ, block);

    return missing >= 0 && (size_t)missing <= n ? n - (size_t)missing : 0;
}

void port_exit(int code)
{
    const uintptr_t block[2] = {SEMIHOSTING_APPLICATION_EXIT, (uintptr_t)code};

    (void)semihosting_call(SEMIHOSTING_EXIT_EXTENDED, block);
    for (;;) {
        /* no host listens */
    }
}
