/* linear.h: as portable/linear.h, but for the store of matrices in groups.
 */
#ifndef COLIBRI_DSP_LINEAR_H
#define COLIBRI_DSP_LINEAR_H

#include "kernels/dsp/store_grouped.h"
#include "kernels/portable/linear.h"

#endif
