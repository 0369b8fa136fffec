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
    const uint32_t one = (uint32_t)colibri_bits(x);
    const uint32_t both = one ^ (uint32_t)colibri_bits(y);
    const uint32_t swap = both & -(uint32_t)((one << 1) < ((one ^ both) << 1));
    const uint32_t a = one ^ swap; /* of the larger magnitude */
    const uint32_t b = a ^ both;
    const uint32_t above = colibri_soft_exponent(a) - 1; /* one less than the exponent */
    const uint32_t lesser = colibri_soft_exponent(b) - 1;
    if ((above >= 254) | (lesser >= 254)) {
        return colibri_rare_sum(x, y);
    }

    /* Below the 24 bits are 6 more, and the last one says whether others follow: then at most two leading bits cancel. */
    const uint32_t below = colibri_soft_least(above - lesser, 31);
    const uint32_t small = colibri_soft_significand(b) << 6;
    const uint32_t term = small >> below | ((small << 1 << (31 - below)) != 0);
    const uint32_t minus = -(both >> 31);
    uint32_t sum = (colibri_soft_significand(a) << 6) + ((term ^ minus) - minus);

    if (sum >> 29 != 0) {
        const uint32_t carry = sum >> 30;
        sum = (sum + 0x1F + (carry << 5) + (sum >> (6 + carry) & 1)) >> (6 + carry);
        sum += (above + carry) * 0x800000;
        return above + carry < 253 ? colibri_from_bits((int32_t)((a & 0x80000000u) | sum)) : colibri_rare_sum(x, y);
    }
    if (sum == 0) {
        return colibri_rare_sum(x, y);
    }
    const uint32_t zeros = colibri_soft_lead(&sum); /* 3 and more */
    if (above + 2 - zeros >= 253) {
        return colibri_rare_sum(x, y);
    }
    sum = colibri_soft_round_byte(sum) + (above + 2 - zeros) * 0x800000;
    return colibri_from_bits((int32_t)((a & 0x80000000u) | sum));
}

#endif
