/* rope.h: as portable/rope.h, with floats in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_rope.h"
#else
#include "kernels/portable/rope.h"
#endif
