/* quantise.h: as portable/quantise.h, with products in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_quantise.h"
#else
#include "kernels/portable/quantise.h"
#endif
