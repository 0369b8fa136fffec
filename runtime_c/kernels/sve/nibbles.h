/* nibbles.h: 4-bit weights in the bytes of a vector, SVE. */
#ifndef COLIBRI_SVE_NIBBLES_H
#define COLIBRI_SVE_NIBBLES_H

#include <arm_sve.h>

/* 15 in each byte. A compiler that knew it would give AND a constant, which then overwrites what it reads, so that a copy
 * is needed. */
static inline svuint8_t colibri_fifteens(void)
{
    svuint8_t mask = svdup_n_u8(15);
    __asm__("" : "+w"(mask));
    return mask;
}

/* Vectors that hold 16 rows, a lane each: 1, 2 or 4. */
static inline int colibri_vectors(void)
{
    return svcntw() >= 16 ? 1 : svcntw() >= 8 ? 2 : 4;
}

#endif
