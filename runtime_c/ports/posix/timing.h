/* timing.h: a steady clock, and what of this machine a measured time is compared with. */
#ifndef COLIBRI_TIMING_H
#define COLIBRI_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC, which nobody sets. */
uint64_t timing_now(void);

/* The least that two calls of timing_now one after the other are apart. */
uint64_t timing_clock_cost(void);

/* Whether the program runs in QEMU's user mode, whose times are those of no board. */
bool timing_emulated(void);

/* Read n bytes, less what is behind the last multiple of 128, as fast as loads alone can. at starts at a multiple of
 * 16. Returns a mixture of them, so that none is left out. */
uint64_t timing_read(const uint8_t *at, size_t n);

/* n steps in registers, each of which waits for the one before: their time varies only by what the system does. Returns
 * what nobody needs, so that they are done. */
uint64_t timing_spin(uint64_t n);

#endif
