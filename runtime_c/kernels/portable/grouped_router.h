/* grouped_router.h: choose the k largest of n scores within the best groups; ties go to the lower index, NaN counts as
 * the smallest.
 *
 * scores: logits in, softmax probabilities or sigmoids out. choice [n]: scores plus correction (NULL for none), the
 * lowest value in closed groups. value [groups]: the largest choice of a group, or with two_best the sum of its two
 * largest; kept groups are open. sizes [groups]: scores of each. index: ascending. weight: of scores; with renormalise
 * divided by their sum, added in ascending index, plus 1e-20.
 */
#ifndef COLIBRI_GROUPED_ROUTER_H
#define COLIBRI_GROUPED_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

/* Index of the largest value that is below the last choice, or equal to it and not before `from`. */
static COLIBRI_APART uint32_t colibri_next_largest(const float *restrict values, uint32_t n, float *last,
                                                   uint32_t *from)
{
    const float lowest = colibri_from_bits((int32_t)0xFF800000u);
    uint32_t best = n;
    float best_value = lowest;
    for (uint32_t i = 0; i < n; i++) {
        const bool open = (values[i] < *last) | ((values[i] == *last) & (i >= *from));
        const bool better = open & ((best == n) | (values[i] > best_value));
        best ^= (best ^ i) & -(uint32_t)better;
        best_value = colibri_choose(better, values[i], best_value);
    }
    *last = best_value;
    *from = best + 1;
    return best;
}

static inline void colibri_group_values(float *restrict value, const float *restrict choice,
                                        const uint32_t *restrict sizes, uint32_t groups, bool two_best)
{
    const float lowest = colibri_from_bits((int32_t)0xFF800000u);
    for (uint32_t group = 0; group < groups; group++) {
        float first = lowest;
        float second = lowest;
        for (uint32_t i = 0; i < sizes[group]; i++) {
            const bool above = choice[i] > first;
            const float lower = colibri_choose(above, first, choice[i]);
            first = colibri_choose(above, choice[i], first);
            second = colibri_choose(lower > second, lower, second);
        }
        value[group] = two_best ? first + second : first;
        choice += sizes[group];
    }
}

static COLIBRI_APART void colibri_grouped_router(uint32_t *restrict index, float *restrict weight,
                                                 float *restrict scores, float *restrict choice, float *restrict value,
                                                 const float *restrict correction, const uint32_t *restrict sizes,
                                                 uint32_t n, uint32_t groups, uint32_t kept, uint32_t k, bool softmax,
                                                 bool two_best, bool renormalise)
{
    const float lowest = colibri_from_bits((int32_t)0xFF800000u);
    if (softmax) {
        float top = lowest;
        for (uint32_t i = 0; i < n; i++) {
            top = colibri_choose(scores[i] > top, scores[i], top);
        }
        float lane[8] = {0.0f};
        for (uint32_t i = 0; i < n; i++) {
            scores[i] = colibri_exp(scores[i] - top);
            lane[i & 7] += scores[i];
        }
        const float inverse = 1.0f / colibri_lane_tree(lane);
        for (uint32_t i = 0; i < n; i++) {
            scores[i] = scores[i] * inverse;
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            scores[i] = colibri_sigmoid(scores[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const float corrected = correction != NULL ? scores[i] + correction[i] : scores[i];
        choice[i] = colibri_choose(corrected == corrected, corrected, lowest);
    }

    colibri_group_values(value, choice, sizes, groups, two_best);
    /* The value of the last group that is open, and up to which index those equal to it are open. */
    float last = -lowest;
    uint32_t from = 0;
    for (uint32_t chosen = 0; chosen < kept; chosen++) {
        (void)colibri_next_largest(value, groups, &last, &from);
    }
    for (uint32_t group = 0, i = 0; group < groups; group++) {
        const bool open = (value[group] > last) | ((value[group] == last) & (group < from));
        for (uint32_t end = i + sizes[group]; i < end; i++) {
            choice[i] = colibri_choose(open, choice[i], lowest);
        }
    }

    last = -lowest;
    from = 0;
    for (uint32_t chosen = 0; chosen < k; chosen++) {
        index[chosen] = colibri_next_largest(choice, n, &last, &from);
        for (uint32_t slot = chosen; slot > 0; slot--) { /* the new one moves down to its place */
            const uint32_t swap = (index[slot - 1] ^ index[slot]) & -(uint32_t)(index[slot - 1] > index[slot]);
            index[slot - 1] ^= swap;
            index[slot] ^= swap;
        }
    }
    for (uint32_t i = 0; i < k; i++) {
        weight[i] = scores[index[i]];
    }
    if (renormalise) {
        float total = weight[0];
        for (uint32_t i = 1; i < k; i++) {
            total = total + weight[i];
        }
        for (uint32_t i = 0; i < k; i++) {
            weight[i] = weight[i] / (total + 1e-20f);
        }
    }
}

#endif
