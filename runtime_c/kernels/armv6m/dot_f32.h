/* dot_f32.h: as portable/dot_f32.h, in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_dot_f32.h"
#else
#include "kernels/portable/dot_f32.h"
#endif
