/* float16.h: half precision as storage: conversions by bit moves and exact products, no hardware needed.
 */
#ifndef COLIBRI_FLOAT16_H
#define COLIBRI_FLOAT16_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

static inline float colibri_from_f16(uint16_t half)
{
    /* As fp32 bits the exponent is 112 too small; the product with 2^112 is exact, denormals included. */
    const float magnitude = colibri_from_bits((half & 0x7FFF) << 13) * 0x1p112f;
    return colibri_from_bits((int32_t)((uint32_t)colibri_bits(magnitude) | (uint32_t)(half & 0x8000) << 16));
}

/* Nearest, ties to even; beyond +-65504 counts as +-65504, NaN as -65504. */
static inline uint16_t colibri_to_f16(float x)
{
    x = colibri_choose(x > -65504.0f, x, -65504.0f);
    x = colibri_choose(x < 65504.0f, x, 65504.0f);
    const float magnitude = colibri_abs(x);
    const uint32_t bits = (uint32_t)colibri_bits(magnitude);
    const uint32_t normal = ((bits + 0xFFF + ((bits >> 13) & 1)) >> 13) - (112u << 10);
    const bool is_small = magnitude < 0x1p-14f;
    const uint32_t denormal = (uint32_t)colibri_nearest(colibri_choose(is_small, magnitude, 0.0f) * 0x1p24f);
    const uint32_t half = normal ^ ((normal ^ denormal) & -(uint32_t)is_small);
    return (uint16_t)(half | (((uint32_t)colibri_bits(x) >> 16) & 0x8000));
}

#endif
