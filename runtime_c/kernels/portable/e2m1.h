/* e2m1.h: 4-bit floats in groups that share a power of two.
 */
#ifndef COLIBRI_E2M1_H
#define COLIBRI_E2M1_H

#include <stdint.h>

/* Twice the float, by its bits: sign, 2 bits of exponent, 1 of mantissa. */
static const int8_t colibri_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^exponent; a damaged file may have a larger one than 20, which does no harm. */
static inline int32_t colibri_power(uint8_t exponent)
{
    return (int32_t)((uint32_t)1 << (exponent & 31));
}

#endif
