/* soft_multiply.h: products of fp32 in integers for cores without an FPU, with fewer instructions than the compiler's.
 *
 * Rounded to nearest, ties to even; what is not a normal number, before or after, is left to the compiler.
 */
#ifndef COLIBRI_SOFT_MULTIPLY_H
#define COLIBRI_SOFT_MULTIPLY_H

#include <stdint.h>
#include "kernels/portable/float32.h"

static inline uint32_t colibri_soft_significand(uint32_t x)
{
    return (x & 0x7FFFFF) | 0x800000;
}

static inline uint32_t colibri_soft_exponent(uint32_t x)
{
    return (x >> 23) & 0xFF;
}

/* The product of two significands: its upper 31 or 32 bits, the last one set if more bits follow. */
static inline uint32_t colibri_soft_upper(uint32_t a, uint32_t b)
{
#if defined(__thumb__) && !defined(__thumb2__)
    /* By halves: Armv6-M has no product of 64 bits. */
    const uint32_t low = (a & 0xFFFF) * (b & 0xFFFF);
    const uint32_t middle = (a >> 16) * (b & 0xFFFF) + (a & 0xFFFF) * (b >> 16);
    return ((low >> 16) + middle + ((a >> 16) * (b >> 16) << 16)) | ((low & 0xFFFF) != 0);
#else
    return colibri_soft_product(a, b);
#endif
}

/* x * y. */
static inline float colibri_soft_multiply(float x, float y)
{
    const uint32_t a = (uint32_t)colibri_bits(x);
    const uint32_t b = (uint32_t)colibri_bits(y);
    const uint32_t product = colibri_soft_upper(colibri_soft_significand(a), colibri_soft_significand(b));
    const uint32_t top = product >> 31;
    const uint32_t below = colibri_soft_exponent(a) - 1; /* one less than the exponent */
    const uint32_t other = colibri_soft_exponent(b) - 1;
    const uint32_t exponent = below + other + top - 126;
    if ((below >= 254) | (other >= 254) | (exponent >= 253)) {
        return x * y;
    }
    const uint32_t magnitude = colibri_soft_round(product, 7 + top) + exponent * 0x800000;
    return colibri_from_bits((int32_t)(((a ^ b) & 0x80000000u) | magnitude));
}

#endif
