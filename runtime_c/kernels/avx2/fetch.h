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

/* The line that lies so many bytes further, such as that of the next tile. */
COLIBRI_INSIDE void colibri_fetch(const uint8_t *w, int further)
{
    _mm_prefetch((const char *)((uintptr_t)w + (uintptr_t)further), _MM_HINT_T0);
}

/* The same, into the second cache: where a tile fills most of the first, and is read again for other inputs. */
COLIBRI_INSIDE void colibri_fetch_second(const uint8_t *w, int further)
{
    _mm_prefetch((const char *)((uintptr_t)w + (uintptr_t)further), _MM_HINT_T1);
}

#endif
