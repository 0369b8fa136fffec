/* experts.h: as portable/experts.h, with floats in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_experts.h"
#else
#include "kernels/portable/experts.h"
#endif
