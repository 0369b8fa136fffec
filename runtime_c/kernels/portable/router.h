/* router.h: choose the k largest of n scores; ties go to the lower index, NaN counts as the smallest.
 *
 * index: ascending. weight: softmax probability over all n (e^(s - max) times the reciprocal of the 8-lane sum); with
 * renormalise over the chosen alone (e^(s - max) divided by their sum, added in ascending index), so that an expert that is
 * not chosen has no part in the result. scores is overwritten. No branch depends on a score, so the choice takes always
 * the same time.
 */
#ifndef COLIBRI_ROUTER_H
#define COLIBRI_ROUTER_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

static COLIBRI_APART void colibri_router(uint32_t *restrict index, float *restrict weight, float *restrict scores,
                                         uint32_t n, uint32_t k, bool renormalise)
{
    const float lowest = colibri_from_bits((int32_t)0xFF800000u);
    float last = -lowest;
    uint32_t from = 0; /* among scores equal to the last choice, those from here on are still to choose */
    for (uint32_t chosen = 0; chosen < k; chosen++) {
        uint32_t best = n;
        float best_score = lowest;
        for (uint32_t i = 0; i < n; i++) {
            const float score = colibri_choose(scores[i] == scores[i], scores[i], lowest);
            const bool open = (score < last) | ((score == last) & (i >= from));
            const bool better = open & ((best == n) | (score > best_score));
            best ^= (best ^ i) & -(uint32_t)better;
            best_score = colibri_choose(better, score, best_score);
        }
        last = best_score;
        from = best + 1;
        index[chosen] = best;
        for (uint32_t slot = chosen; slot > 0; slot--) { /* the new one moves down to its place */
            const uint32_t swap = (index[slot - 1] ^ index[slot]) & -(uint32_t)(index[slot - 1] > index[slot]);
            index[slot - 1] ^= swap;
            index[slot] ^= swap;
        }
    }

    if (renormalise) {
        float top = lowest;
        for (uint32_t i = 0; i < k; i++) {
            top = colibri_choose(scores[index[i]] > top, scores[index[i]], top);
        }
        float total = weight[0] = colibri_exp(scores[index[0]] - top);
        for (uint32_t i = 1; i < k; i++) {
            weight[i] = colibri_exp(scores[index[i]] - top);
            total = total + weight[i];
        }
        for (uint32_t i = 0; i < k; i++) {
            weight[i] = weight[i] / total;
        }
        return;
    }

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
    for (uint32_t i = 0; i < k; i++) {
        weight[i] = scores[index[i]] * inverse;
    }
}

#endif
