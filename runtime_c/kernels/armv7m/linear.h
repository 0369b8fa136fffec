/* linear.h: as portable/linear.h, but for the store of matrices in groups where there is no FPU.
 */
#ifndef COLIBRI_ARMV7M_LINEAR_H
#define COLIBRI_ARMV7M_LINEAR_H

#include "kernels/portable/float32.h"

#ifndef COLIBRI_HAS_FPU
#include "kernels/portable/soft_store_grouped.h"
#endif
#include "kernels/portable/linear.h"

#endif
