/* soft_divide.h: quotients of fp32 in integers for cores without an FPU, with fewer instructions than the compiler's.
 *
 * Rounded to nearest; a quotient is never half way between two floats. What is not a normal number, before or after, is
 * left to the compiler.
 */
#ifndef COLIBRI_SOFT_DIVIDE_H
#define COLIBRI_SOFT_DIVIDE_H

#include <stdint.h>
#include "kernels/portable/soft_multiply.h"

#ifdef __riscv_div
/* 24 more bits of a quotient by b < 2^24 of a rest below b, eight by eight. */
static inline uint32_t colibri_soft_digits(uint32_t quotient, uint32_t rest, uint32_t b)
{
    for (int digit = 0; digit < 3; digit++) {
        rest <<= 8;
        quotient = (quotient << 8) + rest / b;
        rest %= b;
    }
    return quotient;
}
#else
/* The same by a reciprocal, twelve by twelve; b >= 2^23. */
static inline uint32_t colibri_soft_digits(uint32_t quotient, uint32_t rest, uint32_t b)
{
    /* 2^31 / upper or a little less: a line, then two steps of Newton, of which the first goes either way. */
    const uint32_t upper = (b >> 8) + 1;
    uint32_t inverse = 92520 - (61682 * upper >> 16);
    inverse += (uint32_t)((int32_t)inverse * ((int32_t)(0x80000000u - upper * inverse) >> 15) >> 16);
    inverse += inverse * ((0x80000000u - upper * inverse) >> 8) >> 23;
    for (int digit = 0; digit < 2; digit++) {
        const uint32_t more = (rest >> 8) * inverse >> 19; /* or one more */
        rest = (rest << 12) - more * b;
        const uint32_t one = rest >= b;
        rest -= b & -one;
        quotient = (quotient << 12) + more + one;
    }
    return quotient;
}
#endif

/* x / y. */
static inline float colibri_soft_divide(float x, float y)
{
    const uint32_t a = (uint32_t)colibri_bits(x);
    const uint32_t b = (uint32_t)colibri_bits(y);
    const uint32_t divisor = colibri_soft_significand(b);
    uint32_t rest = colibri_soft_significand(a) - divisor;
    const uint32_t less = rest >> 31; /* then the quotient is below 1, and twice the dividend is taken */
    rest += (rest + divisor) & -less;
    const uint32_t below = colibri_soft_exponent(a) - 1; /* one less than the exponent */
    const uint32_t other = colibri_soft_exponent(b) - 1;
    const uint32_t exponent = below - other + 126 - less;
    if ((below >= 254) | (other >= 254) | (exponent >= 253)) {
        return x / y;
    }
    const uint32_t magnitude = ((colibri_soft_digits(1, rest, divisor) + 1) >> 1) + exponent * 0x800000;
    return colibri_from_bits((int32_t)(((a ^ b) & 0x80000000u) | magnitude));
}

#endif
