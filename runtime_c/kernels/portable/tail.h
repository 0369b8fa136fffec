/* tail.h: the columns of a matrix that have a second, finer term: W = Q S + E, E an int8 matrix of these columns.
 *
 * E is in units of the row's scale, so its products join the integer sum. Packing: [count][rows] int8 a tile of rows.
 * columns: their numbers, ascending; one beyond the matrix, which no generator writes, counts as 0.
 */
#ifndef COLIBRI_TAIL_H
#define COLIBRI_TAIL_H

#include <stdint.h>

/* y = x at these columns; x has k values. */
static inline void colibri_gather8(int8_t *restrict y, const int8_t *restrict x, const uint16_t *restrict columns,
                                   int count, int k)
{
    for (int i = 0; i < count; i++) {
        y[i] = x[columns[i] < k ? columns[i] : 0];
    }
}

static inline void colibri_gather16(int16_t *restrict y, const int16_t *restrict x, const uint16_t *restrict columns,
                                    int count, int k)
{
    for (int i = 0; i < count; i++) {
        y[i] = x[columns[i] < k ? columns[i] : 0];
    }
}

/* sum plus the tail's products with what was gathered; |e| <= 127. */
static inline void colibri_tail8(int32_t *restrict sum, const uint8_t *restrict tail, const int8_t *restrict x, int count,
                                 int rows)
{
    const int8_t *restrict e = (const int8_t *)tail;
    for (int i = 0; i < count; i++) {
        for (int row = 0; row < rows; row++) {
            sum[row] += *e++ * x[i];
        }
    }
}

static inline void colibri_tail16(int32_t *restrict sum, const uint8_t *restrict tail, const int16_t *restrict x,
                                  int count, int rows)
{
    const int8_t *restrict e = (const int8_t *)tail;
    for (int i = 0; i < count; i++) {
        for (int row = 0; row < rows; row++) {
            sum[row] += *e++ * x[i];
        }
    }
}

#endif
