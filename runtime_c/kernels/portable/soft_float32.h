/* soft_float32.h: activations of whole rows for cores without an FPU; all but silu_times value by value.
 */
#ifndef COLIBRI_SOFT_FLOAT32_H
#define COLIBRI_SOFT_FLOAT32_H

#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/value_by_value.h"

/* 1 + e of an e that is 0 or a positive normal number, as fp32 bits. */
static inline uint32_t colibri_soft_one_plus(uint32_t e)
{
    const uint32_t one = 0x3F800000;
    const uint32_t large = colibri_most(e, one);
    const uint32_t small = e ^ one ^ large;
    const uint32_t exponent = large >> 23;
    const uint32_t below = colibri_soft_least(exponent - (small >> 23), 31);
    const uint32_t part = colibri_soft_significand(small) << 6;
    const uint32_t sum = (colibri_soft_significand(large) << 6) + (part >> below | ((part << 1 << (31 - below)) != 0));
    const uint32_t carry = sum >> 30;
    return ((sum + 0x1F + (carry << 5) + (sum >> (6 + carry) & 1)) >> (6 + carry)) + (exponent - 1 + carry) * 0x800000;
}

static inline void colibri_silu_times(float *restrict up, const float *restrict gate, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const float minus = colibri_from_bits(colibri_bits(gate[i]) ^ INT32_MIN);
        const uint32_t below = colibri_soft_one_plus((uint32_t)colibri_bits(colibri_exp(minus)));
        const float silu = colibri_soft_over(gate[i], colibri_from_bits((int32_t)below));
        up[i] = colibri_soft_times(silu, up[i]);
    }
}

#endif
