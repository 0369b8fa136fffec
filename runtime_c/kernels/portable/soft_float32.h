/* soft_float32.h: activations of whole rows for cores without an FPU; all but silu_times value by value.
 */
#ifndef COLIBRI_SOFT_FLOAT32_H
#define COLIBRI_SOFT_FLOAT32_H

#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/soft_float.h"
#include "kernels/portable/value_by_value.h"

static inline void colibri_silu_times(float *restrict up, const float *restrict gate, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const float minus = colibri_from_bits(colibri_bits(gate[i]) ^ INT32_MIN);
        const uint32_t below = colibri_soft_plus((uint32_t)colibri_bits(colibri_exp(minus)), 0x3F800000);
        const float silu = colibri_soft_over(gate[i], colibri_from_bits((int32_t)below));
        up[i] = colibri_soft_times(silu, up[i]);
    }
}

#endif
