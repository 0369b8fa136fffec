/* port.c: port.h on the standard streams of a POSIX system. */
#define _POSIX_C_SOURCE 200809L

#include "../port.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void port_write(const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        const ssize_t written = write(STDOUT_FILENO, at, n);

        if (written > 0) {
            at += written;
            n -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return; /* nobody reads any more */
        }
    }
}

size_t port_read(void *bytes, size_t n)
{
    char *at = bytes;
    size_t done = 0;

    while (done < n) {
        const ssize_t got = read(STDIN_FILENO, at + done, n - done);

        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            break;
        }
    }
    return done;
}

void port_strict(void)
{
    /* the system decides. */
}

void port_exit(int code)
{
    exit(code);
}
