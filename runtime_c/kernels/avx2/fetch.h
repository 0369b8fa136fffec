/* fetch.h: weights begin to come from memory before they are wanted.
 *
 * A processor notices that memory is read in order, and reads on by itself, up to the end of a page; one such stream
 * alone brings about half of what memory can give. So 256 bytes of weights fetch a line of each of four pages: of the
 * 16 KB behind the 16 KB in which they lie. That may be beyond the matrix, which no processor minds.
 */
#ifndef COLIBRI_FETCH_H
#define COLIBRI_FETCH_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/shared.h"

/* For each 256 bytes from w on, once. Addresses are numbers, since they may lie beyond the weights. */
COLIBRI_INSIDE void colibri_fetch_ahead(const uint8_t *w)
{
    const uintptr_t at = (uintptr_t)w;
    const uintptr_t line = (at & ~(uintptr_t)0x3FFF) + 0x4000 + ((at & 0x3F00) >> 2);
    _mm_prefetch((const char *)line, _MM_HINT_T0);
    _mm_prefetch((const char *)(line + 0x1000), _MM_HINT_T0);
    _mm_prefetch((const char *)(line + 0x2000), _MM_HINT_T0);
    _mm_prefetch((const char *)(line + 0x3000), _MM_HINT_T0);
}

/* For each 64 bytes from w on, once: the same lines. */
COLIBRI_INSIDE void colibri_fetch_line(const uint8_t *w)
{
    const uintptr_t at = (uintptr_t)w;
    const uintptr_t line = (at & ~(uintptr_t)0x3FFF) + 0x4000 + ((at & 0xC0) << 6) + ((at & 0x3F00) >> 2);
    _mm_prefetch((const char *)line, _MM_HINT_T0);
}

/* Where several calls multiply a tile, each with other inputs, each fetches a share of the next tile: the first alone would
 * want it faster than memory gives it. */
typedef struct colibri_next {
    uintptr_t at;
    uintptr_t step;
} colibri_next;

/* The share of one call among so many. The tile has bytes, a multiple of 64. */
COLIBRI_INSIDE colibri_next colibri_next_of(const uint8_t *tile, int bytes, uint32_t call, uint32_t calls)
{
    const uint32_t size = (uint32_t)bytes;
    const uint32_t step = (64 + calls - 1) / calls;
    return (colibri_next){(uintptr_t)tile + size + call * step * (size / 64), step};
}

/* For each 64 bytes of the tile, once; into the second cache, since this tile and the inputs fill most of the first. */
COLIBRI_INSIDE void colibri_fetch_next(colibri_next *next)
{
    _mm_prefetch((const char *)next->at, _MM_HINT_T1);
    next->at += next->step;
}

#endif
