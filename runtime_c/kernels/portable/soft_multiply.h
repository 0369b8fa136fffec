/* soft_multiply.h: products of fp32 in integers for cores without an FPU, with fewer instructions than the compiler's.
 *
 * Rounded to nearest, ties to even; what is not a normal number, before or after, is left to the compiler.
 */
#ifndef COLIBRI_SOFT_MULTIPLY_H
#define COLIBRI_SOFT_MULTIPLY_H

#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"

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
    if (value >> 31 == 0) {
        value <<= 1;
        zeros++;
    }
    *x = value;
    return zeros;
}

/* x * y as the compiler has it. */
static COLIBRI_APART float colibri_rare_product(float x, float y)
{
    return x * y;
}

/* The product of two significands, rounded to 24 bits; 2^23 more if it is twice as large as the least one or larger. The
 * lower 23 bits of a and b have the significands but for their leading bits. */
static inline uint32_t colibri_soft_rounded_product(uint32_t a, uint32_t b)
{
#if defined(__thumb__) && !defined(__thumb2__)
    uint32_t b_upper = (b << 9 >> 25) + 128;
    uint32_t b_lower = (uint16_t)b;
    uint32_t upper = (a << 9 >> 25) + 128;
    uint32_t product = (uint16_t)a;
    uint32_t low;
    __asm__(
        "   .syntax unified\n"
        "   movs    %[low], %[product]\n"
        "   muls    %[low], %[b_lower]\n"
        "   muls    %[product], %[b_upper]\n"
        "   muls    %[b_lower], %[upper]\n"
        "   muls    %[upper], %[b_upper]\n"
        "   adds    %[product], %[product], %[b_lower]\n"
        "   lsls    %[upper], %[upper], #16\n"
        "   adds    %[product], %[product], %[upper]\n"
        "   lsrs    %[upper], %[low], #16\n"
        "   adds    %[product], %[product], %[upper]\n"
        "   lsls    %[low], %[low], #16\n"
        "   beq     1f\n"
        "   movs    %[low], #1\n" /* more bits follow */
        "   orrs    %[product], %[low]\n"
        "1: lsrs    %[b_upper], %[product], #31\n"
        "   bne     2f\n"
        "   lsls    %[product], %[product], #1\n"
        "2: lsls    %[b_upper], %[b_upper], #23\n"
        "   lsrs    %[upper], %[product], #8\n" /* carry: the bit that rounds */
        "   bcc     4f\n"
        "   lsls    %[product], %[product], #25\n"
        "   bne     3f\n"
        "   lsrs    %[low], %[upper], #1\n" /* half way: to even */
        "   bcc     4f\n"
        "3: adds    %[upper], %[upper], #1\n"
        "4: adds    %[upper], %[upper], %[b_upper]\n"
        : [upper] "+l"(upper), [product] "+l"(product), [b_lower] "+l"(b_lower), [b_upper] "+l"(b_upper), [low] "=&l"(low)
        :
        : "cc");
    return upper;
#else
    const uint32_t product = colibri_soft_product(colibri_soft_significand(a), colibri_soft_significand(b));
    const uint32_t top = product >> 31;
    return colibri_soft_top_bits(product, top) + top * 0x800000;
#endif
}

/* x * y. */
static inline float colibri_soft_multiply(float x, float y)
{
    const uint32_t a = (uint32_t)colibri_bits(x);
    const uint32_t b = (uint32_t)colibri_bits(y);
    const uint32_t one = a << 1 >> 24;
    const uint32_t other = b << 1 >> 24;
    const uint32_t exponent = one + other - 128; /* one less than the exponent, which may become one more */
    if (one - 1 >= 254 || other - 1 >= 254 || exponent >= 252) {
        return colibri_rare_product(x, y);
    }
    const uint32_t magnitude = colibri_soft_rounded_product(a, b) + exponent * 0x800000;
    return colibri_from_bits((int32_t)(((a ^ b) & 0x80000000u) | magnitude));
}

/* y = x * factor; y may be x. */
COLIBRI_SHARED void colibri_soft_scale_row(float *y, const float *x, float factor, int count)
{
    const uint32_t b = (uint32_t)colibri_bits(factor);
    const uint32_t other = b << 1 >> 24;
    const uint32_t above = (b & 0x80000000u) + (other - 128) * 0x800000;
    /* Exponents of x for which neither it nor the product is anything but a normal number. */
    const uint32_t least = other < 127 ? 128 - other : 1;
    const uint32_t behind = other > 125 ? 380 - other : 255;
    const uint32_t usual = other - 1 < 254 && behind > least ? behind - least : 0;
    for (int i = 0; i < count; i++) {
        const uint32_t a = (uint32_t)colibri_bits(x[i]);
        if ((a << 1 >> 24) - least < usual) {
            y[i] = colibri_from_bits((int32_t)(colibri_soft_rounded_product(a, b) + (a >> 23 << 23) + above));
        } else {
            y[i] = colibri_rare_product(x[i], factor);
        }
    }
}

#endif
