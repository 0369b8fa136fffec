/* soft_add.h: sums of fp32 in integers for cores without an FPU, with fewer instructions than the compiler's.
 *
 * Rounded to nearest, ties to even; what is not a normal number, before or after, is left to the compiler.
 */
#ifndef COLIBRI_SOFT_ADD_H
#define COLIBRI_SOFT_ADD_H

#include <stdint.h>
#include "kernels/portable/soft_multiply.h"

/* The sum of two positive normal numbers of which one may be 0, the other 2^-80 or more; bits of floats. */
static inline uint32_t colibri_soft_plus(uint32_t a, uint32_t b)
{
    const uint32_t large = colibri_most(a, b);
    const uint32_t small = a ^ b ^ large;
    const uint32_t exponent = large >> 23;
    const uint32_t below = colibri_soft_least(exponent - (small >> 23), 31);
    const uint32_t part = colibri_soft_significand(small) << 6;
    const uint32_t sum = (colibri_soft_significand(large) << 6) + (part >> below | ((part << 1 << (31 - below)) != 0));
    const uint32_t carry = sum >> 30;
    return ((sum + 0x1F + (carry << 5) + (sum >> (6 + carry) & 1)) >> (6 + carry)) + (exponent - 1 + carry) * 0x800000;
}

/* x + y as the compiler has it. */
static COLIBRI_APART float colibri_rare_sum(float x, float y)
{
    return x + y;
}

/* x + y. One function: it is long. */
static COLIBRI_APART float colibri_soft_add(float x, float y)
{
    uint32_t a = (uint32_t)colibri_bits(x);
    uint32_t b = (uint32_t)colibri_bits(y);
    if (a << 1 < b << 1) { /* a: of the larger magnitude */
        a = (uint32_t)colibri_bits(y);
        b = (uint32_t)colibri_bits(x);
    }
    uint32_t above = (a << 1 >> 24) - 1; /* one less than the exponent */
    const uint32_t lesser = (b << 1 >> 24) - 1;
    const uint32_t below = above - lesser;
    if (above >= 253 || lesser >= 254) {
        return colibri_rare_sum(x, y);
    }
    if (below > 25) { /* less than half of what a could change by */
        return colibri_from_bits((int32_t)a);
    }

    /* Below the 24 bits are 6 more, and the last one says whether others follow: then at most two leading bits cancel. */
    uint32_t sum = (a << 9 >> 3) + 0x20000000;
    const uint32_t small = (b << 9 >> 3) + 0x20000000;
    uint32_t term = small >> below;
    if (term << below != small) {
        term |= 1;
    }
    if ((int32_t)(a ^ b) >= 0) {
        sum += term;
        if (sum >> 30 != 0) {
            sum = (sum >> 1) | (sum & 1);
            above++;
        }
    } else {
        sum -= term;
        if (sum >> 29 == 0) {
            if (sum == 0) {
                return colibri_rare_sum(x, y);
            }
            do {
                sum <<= 1;
                above--;
            } while (sum >> 29 == 0);
            if (above >= 253) {
                return colibri_rare_sum(x, y);
            }
        }
    }
    sum = ((sum + 0x1F + (sum >> 6 & 1)) >> 6) + above * 0x800000;
    return colibri_from_bits((int32_t)((a >> 31 << 31) + sum));
}

#endif
