/* argmax.c: greedy choice. */
#include "colibri.h"

uint32_t colibri_argmax(const float *values, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (values[i] > values[best]) {
            best = i;
        }
    }
    return best;
}
