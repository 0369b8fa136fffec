/* rows.h: the lanes of the sums of several rows, added, NEON. */
#ifndef COLIBRI_NEON_ROWS_H
#define COLIBRI_NEON_ROWS_H

#include <arm_neon.h>

/* A lane for each of four rows. */
static inline int32x4_t colibri_four_rows(int32x4_t row0, int32x4_t row1, int32x4_t row2, int32x4_t row3)
{
    return vpaddq_s32(vpaddq_s32(row0, row1), vpaddq_s32(row2, row3));
}

#endif
