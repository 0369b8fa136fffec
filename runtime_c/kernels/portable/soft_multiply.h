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

/* Shifted to the left until its highest bit is the leading one; returns by how many bits. x: not 0. */
static inline uint32_t colibri_soft_lead(uint32_t *x)
{
    uint32_t value = *x;
    uint32_t zeros = 0;
    if (value >> 16 == 0) {
        value <<= 16;
        zeros = 16;
    }
    if (value >> 24 == 0) {
        value <<= 8;
        zeros += 8;
    }
    if (value >> 28 == 0) {
        value <<= 4;
        zeros += 4;
    }
    if (value >> 30 == 0) {
        value <<= 2;
        zeros += 2;
    }
    const uint32_t last = (value >> 31) ^ 1;
    *x = value << last;
    return zeros + last;
}

/* x * y as the compiler has it. */
static COLIBRI_APART float colibri_rare_product(float x, float y)
{
    return x * y;
}

/* x * y. */
static inline float colibri_soft_multiply(float x, float y)
{
    const uint32_t a = (uint32_t)colibri_bits(x);
    const uint32_t b = (uint32_t)colibri_bits(y);
    const uint32_t product = colibri_soft_product(colibri_soft_significand(a), colibri_soft_significand(b));
    const uint32_t top = product >> 31;
    const uint32_t below = colibri_soft_exponent(a) - 1; /* one less than the exponent */
    const uint32_t other = colibri_soft_exponent(b) - 1;
    const uint32_t exponent = below + other + top - 126;
    if ((below >= 254) | (other >= 254) | (exponent >= 253)) {
        return colibri_rare_product(x, y);
    }
    const uint32_t magnitude = colibri_soft_top_bits(product, top) + exponent * 0x800000;
    return colibri_from_bits((int32_t)(((a ^ b) & 0x80000000u) | magnitude));
}

#endif
