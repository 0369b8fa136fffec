/* dot_planes_a16.h: rows of a matrix of 2 to 6 bits times 16-bit activations, exactly.
 *
 * Packing: planes.h says how 32 columns lie; 4-byte aligned. factors: one int8 a group of columns; zeros: one byte a
 * group, or NULL: then the middle of the integers stands for 0. bits and group (32, 64 or 128) are constants.
 * x: k values, k a multiple of 32, zero padded. A weight is (q - 2^(bits - 1)) * factor, or, with a zero point,
 * q * factor - colibri_zero(...); |x| <= qmax of the op, chosen so that no sum passes int32.
 */
#ifndef COLIBRI_DOT_PLANES_A16_H
#define COLIBRI_DOT_PLANES_A16_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/planes.h"
#include "kernels/portable/shared.h"

#define COLIBRI_DOT_PLANES_A16_ROWS 1

/* Inline wherever it is called, so that bits and group are constants. */
COLIBRI_INSIDE void colibri_dot_planes_a16(int32_t sum[COLIBRI_DOT_PLANES_A16_ROWS], const uint8_t *restrict w,
                                           const uint8_t *restrict factors, const uint8_t *restrict zeros,
                                           const int16_t *restrict x, int k, int bits, int group)
{
    const uint32_t *restrict words = colibri_words(w);
    const int8_t *restrict factor = (const int8_t *)factors;
    int32_t total = 0;
    for (int start = 0; start < k; start += group) {
        const int count = k - start < group ? k - start : group;
        int32_t part = 0;
        int32_t values = 0;
        for (int i = 0; i < count; i += 32) {
            for (int quad = 0; quad < 8; quad++) {
                const uint32_t q = colibri_quad(words, quad, bits);
                part += (int32_t)(q & 255) * x[0];
                part += (int32_t)(q >> 8 & 255) * x[1];
                part += (int32_t)(q >> 16 & 255) * x[2];
                part += (int32_t)(q >> 24) * x[3];
                values += x[0] + x[1] + x[2] + x[3];
                x += 4;
            }
            words += bits;
        }
        if (zeros == NULL) {
            total += (part - values * (1 << (bits - 1))) * *factor;
        } else {
            total += part * *factor;
            total -= values * colibri_zero(*zeros, *factor, bits);
            zeros++;
        }
        factor++;
    }
    sum[0] = total;
}

#endif
