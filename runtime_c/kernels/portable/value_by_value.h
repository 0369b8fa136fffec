/* value_by_value.h: activations of whole rows as loops over those of a value, for folders that have another loop for one.
 */
#ifndef COLIBRI_VALUE_BY_VALUE_H
#define COLIBRI_VALUE_BY_VALUE_H

#include <stdint.h>
#include "kernels/portable/float32.h"

/* x = f(x) for count values. */
#define COLIBRI_ROW_BY_VALUES(name)                                                                             \
    static inline void colibri_##name##_row(float *x, uint32_t count)                                           \
    {                                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                                  \
            x[i] = colibri_##name(x[i]);                                                                        \
        }                                                                                                       \
    }

/* up = f(gate) * up for count values. */
#define COLIBRI_TIMES_BY_VALUES(name)                                                                           \
    static inline void colibri_##name##_times(float *restrict up, const float *restrict gate, uint32_t count)   \
    {                                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                                  \
            up[i] = colibri_##name(gate[i]) * up[i];                                                            \
        }                                                                                                       \
    }

COLIBRI_ROW_BY_VALUES(identity)
COLIBRI_ROW_BY_VALUES(relu)
COLIBRI_ROW_BY_VALUES(sigmoid)
COLIBRI_ROW_BY_VALUES(silu)
COLIBRI_ROW_BY_VALUES(tanh)
COLIBRI_ROW_BY_VALUES(gelu)
COLIBRI_ROW_BY_VALUES(gelu_tanh)
COLIBRI_TIMES_BY_VALUES(identity)
COLIBRI_TIMES_BY_VALUES(relu)
COLIBRI_TIMES_BY_VALUES(sigmoid)
COLIBRI_TIMES_BY_VALUES(tanh)
COLIBRI_TIMES_BY_VALUES(gelu)
COLIBRI_TIMES_BY_VALUES(gelu_tanh)

static inline void colibri_clipped_swiglu_row(float *restrict up, const float *restrict gate, uint32_t count,
                                              float alpha, float limit)
{
    for (uint32_t i = 0; i < count; i++) {
        up[i] = colibri_clipped_swiglu(gate[i], up[i], alpha, limit);
    }
}

#endif
