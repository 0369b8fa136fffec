/* float16.h: half precision as storage: conversions by bit moves and exact products, no hardware needed.
 */
#ifndef COLIBRI_FLOAT16_H
#define COLIBRI_FLOAT16_H

#include <stdint.h>
#include "kernels/portable/float32.h"

static inline float colibri_from_f16(uint16_t half)
{
    /* As fp32 bits the exponent is 112 too small; the product with 2^112 is exact, denormals included. */
    const float magnitude = colibri_from_bits((half & 0x7FFF) << 13) * 0x1p112f;
    return half & 0x8000 ? -magnitude : magnitude;
}

/* Nearest, ties to even; beyond +-65504 counts as +-65504, NaN as -65504. */
static inline uint16_t colibri_to_f16(float x)
{
    x = x > -65504.0f ? x : -65504.0f;
    x = x < 65504.0f ? x : 65504.0f;
    const float magnitude = colibri_abs(x);
    uint32_t half;
    if (magnitude < 0x1p-14f) {
        half = (uint32_t)colibri_nearest(magnitude * 0x1p24f);
    } else {
        const uint32_t bits = (uint32_t)colibri_bits(magnitude);
        half = ((bits + 0xFFF + ((bits >> 13) & 1)) >> 13) - (112u << 10);
    }
    return (uint16_t)(half | (((uint32_t)colibri_bits(x) >> 16) & 0x8000));
}

#endif
