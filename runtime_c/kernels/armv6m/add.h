/* add.h: as portable/add.h, with floats in integers where there is no FPU.
 */
#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_add_rows.h"
#else
#include "kernels/portable/add.h"
#endif
