/* port.c: port.h on the standard handles of Windows. They carry bytes: no line ends are translated. */
#include "../port.h"

#include <stddef.h>
#include <windows.h>

/* a transfer has 32 bits of length. */
static DWORD at_most(size_t n)
{
    return n < 0x40000000u ? (DWORD)n : 0x40000000u;
}

void port_write(const void *bytes, size_t n)
{
    const HANDLE console = GetStdHandle(STD_OUTPUT_HANDLE);
    const char *at = bytes;
    DWORD done = 0;

    while (n > 0 && WriteFile(console, at, at_most(n), &done, NULL) && done > 0) {
        at += done;
        n -= done;
    }
}

size_t port_read(void *bytes, size_t n)
{
    const HANDLE requests = GetStdHandle(STD_INPUT_HANDLE);
    char *at = bytes;
    size_t left = n;
    DWORD done = 0;

    /* at the end of a pipe ReadFile fails, at that of a file it reads nothing. */
    while (left > 0 && ReadFile(requests, at, at_most(left), &done, NULL) && done > 0) {
        at += done;
        left -= done;
    }
    return n - left;
}

void port_strict(void)
{
    /* the system decides. */
}

void port_exit(int code)
{
    ExitProcess((UINT)code);
}
