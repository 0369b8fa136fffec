/* float32.h: activations of whole rows, with floats in integers where there is no FPU.
 */
#ifndef COLIBRI_ARMV6M_FLOAT32_H
#define COLIBRI_ARMV6M_FLOAT32_H

#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_float32.h"
#else
#include "kernels/portable/value_by_value.h"

COLIBRI_TIMES_BY_VALUES(silu)
#endif

#endif
