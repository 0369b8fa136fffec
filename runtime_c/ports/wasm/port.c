/* port.c: port.h as a command of WASI preview 1, without a C library.
 *
 * The module imports three of its functions and nothing else. Its memory has the size that the linker gave it:
 * nothing in it grows.
 */
#include "../port.h"

#include <stddef.h>
#include <stdint.h>

/* ---- WASI preview 1 (wasi_snapshot_preview1) -------------------------------------------------------------- */

struct iovec {
    void *bytes;
    size_t n;
};

enum { STANDARD_INPUT, STANDARD_OUTPUT };

#define WASI(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(name)))

/* both return 0, or an error's number and then leave *done alone. */
WASI("fd_read") uint16_t wasi_fd_read(int fd, const struct iovec *pieces, size_t n_pieces, size_t *done);
WASI("fd_write") uint16_t wasi_fd_write(int fd, const struct iovec *pieces, size_t n_pieces, size_t *done);
WASI("proc_exit") _Noreturn void wasi_proc_exit(uint32_t code);

/* ---- port.h ----------------------------------------------------------------------------------------------- */

void port_write(const void *bytes, size_t n)
{
    /* the type is that of fd_read too; what it points to is only read here. */
    struct iovec rest = {(void *)(uintptr_t)bytes, n};

    while (rest.n > 0) {
        size_t done = 0;

        if (wasi_fd_write(STANDARD_OUTPUT, &rest, 1, &done) != 0 || done == 0 || done > rest.n) {
            return; /* nobody reads any more */
        }
        rest.bytes = (unsigned char *)rest.bytes + done;
        rest.n -= done;
    }
}

size_t port_read(void *bytes, size_t n)
{
    struct iovec rest = {bytes, n};

    while (rest.n > 0) {
        size_t done = 0;

        if (wasi_fd_read(STANDARD_INPUT, &rest, 1, &done) != 0 || done == 0 || done > rest.n) {
            break;
        }
        rest.bytes = (unsigned char *)rest.bytes + done;
        rest.n -= done;
    }
    return n - rest.n;
}

void port_strict(void)
{
    /* a division by zero is a trap anyway; unaligned accesses are part of WebAssembly. */
}

void port_exit(int code)
{
    wasi_proc_exit((uint32_t)code);
}

/* ---- start-up: the runtime has filled the memory --------------------------------------------------------- */

/* the program's main(), which the build renames: compilers for WebAssembly give that name a meaning of their own. */
int port_main(void);

void _start(void);
void _start(void)
{
    port_exit(port_main());
}
