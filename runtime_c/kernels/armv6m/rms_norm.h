/* rms_norm.h: as portable/rms_norm.h, with floats in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_rms_norm.h"
#else
#include "kernels/portable/rms_norm.h"
#endif
