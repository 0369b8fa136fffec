/* soft_add.h: sums of fp32 in integers for cores without an FPU, with fewer instructions than the compiler's.
 *
 * Rounded to nearest, ties to even; what is not a normal number, before or after, is left to the compiler.
 */
#ifndef COLIBRI_SOFT_ADD_H
#define COLIBRI_SOFT_ADD_H

#include <stdint.h>
#include "kernels/portable/soft_multiply.h"

/* x + y. */
static inline float colibri_soft_add(float x, float y)
{
    const uint32_t one = (uint32_t)colibri_bits(x);
    const uint32_t both = one ^ (uint32_t)colibri_bits(y);
    const uint32_t swap = both & -(uint32_t)((one << 1) < ((one ^ both) << 1));
    const uint32_t a = one ^ swap; /* of the larger magnitude */
    const uint32_t b = a ^ both;
    const uint32_t exponent = colibri_soft_exponent(a);
    const uint32_t lesser = colibri_soft_exponent(b);
    if ((exponent - 1 >= 254) | (lesser - 1 >= 254)) {
        return x + y;
    }

    /* Below the 24 bits are 6 more, and the last one says whether others follow: then at most two leading bits cancel. */
    const uint32_t below = colibri_soft_least(exponent - lesser, 31);
    const uint32_t small = colibri_soft_significand(b) << 6;
    const uint32_t term = small >> below | ((small << 1 << (31 - below)) != 0);
    const uint32_t minus = -(both >> 31);
    const uint32_t sum = (colibri_soft_significand(a) << 6) + ((term ^ minus) - minus);

    uint32_t zeros = 3 - (uint32_t)(sum >= 1u << 29) - (sum >> 30);
    if (sum < 1u << 28) {
        zeros = sum != 0 ? (uint32_t)__builtin_clz(sum) : 32;
    }
    const uint32_t above = exponent + 1 - zeros; /* one less than the exponent */
    if (zeros == 32 || above >= 253) {
        return x + y;
    }
    const uint32_t magnitude = colibri_soft_round(sum << zeros, 8) + above * 0x800000;
    return colibri_from_bits((int32_t)((a & 0x80000000u) | magnitude));
}

#endif
