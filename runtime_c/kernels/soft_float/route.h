/* route.h: choose the k largest of n products with x, as linear.h and router.h do, of which few are computed as floats.
 *
 * An expert that is not chosen has no part in the result, so it is enough to know that its score is too low. Sums in
 * integers say that of nearly all: x and the matrix in units of 2^-15 of the power of two above the largest of each, their
 * products halved so often that width of them fit. How far such a sum may be from the one in floats is counted besides.
 */
#ifndef COLIBRI_ROUTE_H
#define COLIBRI_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/router.h"
#include "kernels/portable/shared.h"
#include "kernels/portable/soft_dot_f32.h"

/* The largest exponent of a row; 255 if an element is not finite. */
static inline uint32_t colibri_route_exponent(const float *restrict x, uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = (uint32_t)colibri_bits(x[i]) << 1;
        most = magnitude > most ? magnitude : most;
    }
    return most >> 24;
}

/* |x| in units of 2^(exponent - 141), rounded down, below 2^15. x: bits of a float below 2^(exponent - 126). */
static inline uint32_t colibri_route_units(uint32_t x, uint32_t exponent)
{
    const uint32_t shift = exponent - (x << 1 >> 24) + 17;
    return shift < 32 ? (x << 8 | 0x80000000u) >> shift : 0;
}

/* x in such units; total grows by the magnitude. */
static inline int32_t colibri_route_value(uint32_t *restrict total, float x, uint32_t exponent)
{
    const uint32_t bits = (uint32_t)colibri_bits(x);
    const uint32_t units = colibri_route_units(bits, exponent);
    const uint32_t minus = -(bits >> 31);
    *total += units;
    return (int32_t)((units ^ minus) - minus);
}

/* A product in units of both, halved so often. */
static inline int32_t colibri_route_sum(uint32_t *restrict total, const float *restrict w, const int32_t *restrict x,
                                        uint32_t width, uint32_t exponent, uint32_t halvings)
{
    int32_t sum = 0;
    uint32_t magnitudes = 0;
    for (uint32_t i = 0; i < width; i++) {
        sum += (colibri_route_value(&magnitudes, w[i], exponent) * x[i]) >> halvings;
    }
    *total = colibri_most(*total, magnitudes);
    return sum;
}

/* Sums of all experts, as bits in place of their scores; returns how much two of them may err against each other. */
static inline uint32_t colibri_route_sums(float *restrict scores, int32_t *restrict inputs, const float *restrict w,
                                          uint32_t of_w, const float *restrict x, uint32_t of_x, uint32_t n,
                                          uint32_t width)
{
    uint32_t halvings = 0;
    while (1u << halvings < width) {
        halvings++;
    }
    uint32_t total_x = 0;
    for (uint32_t i = 0; i < width; i++) {
        inputs[i] = colibri_route_value(&total_x, x[i], of_x);
    }
    uint32_t total_w = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t sum = colibri_route_sum(&total_w, w + i * width, inputs, width, of_w, halvings);
        scores[i] = colibri_from_bits(sum);
    }
    /* What is cut off one factor counts as often as the other is large. The floats' products and sums round width times by
     * 2^-24 of all magnitudes, which are at most 2^15 of those of x: doubled, for second orders. Halving rounds down. */
    const uint32_t floats = ((total_x >> 8) + 1) * width;
    return 2 * (((total_x + total_w + floats) >> halvings) + 2 * width + 2);
}

/* The k-th largest of the sums. */
static inline int32_t colibri_route_least(const float *restrict scores, uint32_t n, uint32_t k)
{
    int32_t least = INT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t above = 0;
        for (uint32_t j = 0; j < n; j++) {
            above += colibri_bits(scores[j]) > colibri_bits(scores[i]);
        }
        if (above < k && colibri_bits(scores[i]) < least) {
            least = colibri_bits(scores[i]);
        }
    }
    return least;
}

/* index, weight: [k], as of `colibri_router` with renormalise. scores: [n], inputs: [width], overwritten. w: [n][width];
 * width up to 2^12. */
COLIBRI_SHARED void colibri_route(uint32_t *restrict index, float *restrict weight, float *restrict scores,
                                  int32_t *restrict inputs, const float *restrict w, const float *restrict x,
                                  uint32_t n, uint32_t width, uint32_t k)
{
    const uint32_t of_w = colibri_route_exponent(w, n * width);
    const uint32_t of_x = colibri_route_exponent(x, width);
    int32_t least = INT32_MIN;
    /* No float overflows then, and what is rounded as a denormal is far below a unit. */
    const bool tame = (of_w - 15 < 240) & (of_x - 15 < 240) & (of_w + of_x - 200 < 140);
    if (tame) {
        const uint32_t apart = colibri_route_sums(scores, inputs, w, of_w, x, of_x, n, width);
        least = colibri_route_least(scores, n, k) - (int32_t)apart;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (tame && colibri_bits(scores[i]) < least) {
            scores[i] = colibri_from_bits((int32_t)0xFF800000u); /* minus infinity */
        } else {
            colibri_dot_f32(scores + i, w + i * width, x, (int)width);
        }
    }
    colibri_router(index, weight, scores, n, k, true);
}

#endif
