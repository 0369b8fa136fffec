/* dot_w4a8.h: rows of a 4-bit matrix times 8-bit activations, exactly.
 *
 * Packing: 16 bytes for each group of 32 columns; byte c holds column c in its low and column c + 16 in its
 * high half, each plus 8. factors: one int8 a group. x: k values, k a multiple of 32, zero padded.
 * |w| <= 8 * 127 and |x| <= qmax of the op, chosen so that 8 * 127 * qmax * k < 2^31.
 */
#ifndef COLIBRI_DOT_W4A8_H
#define COLIBRI_DOT_W4A8_H

#include <stdint.h>

#define COLIBRI_DOT_W4A8_ROWS 1

static inline void colibri_dot_w4a8(int32_t sum[COLIBRI_DOT_W4A8_ROWS], const uint8_t *restrict w,
                                    const uint8_t *restrict factors, const int8_t *restrict x, int k)
{
    const int8_t *restrict factor = (const int8_t *)factors;
    int32_t total = 0;
    /* Pointers that move and loops that count down leave compilers for small cores enough registers. */
    for (int group = k / 32; group > 0; group--) {
        int32_t part = 0;
        for (int i = 16; i > 0; i--) {
            const int32_t pair = *w++;
            part += ((pair & 15) - 8) * x[0];
            part += ((pair >> 4) - 8) * x[16];
            x++;
        }
        total += part * *factor++;
        x += 16;
    }
    sum[0] = total;
}

#endif
