/* sparse_mixer.h: choose two of n scores, each with its softmax among those near it.
 *
 * The largest score s wins; near it is a score with (s - score) / max(|score|, s) <= width. The second is the largest of
 * the others, found in the same way. Ties go to the lower index, NaN counts as the smallest. scores is overwritten with
 * the lowest value where it is NaN. near: [n], scratch. index: ascending.
 */
#ifndef COLIBRI_SPARSE_MIXER_H
#define COLIBRI_SPARSE_MIXER_H

#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/float32.h"

/* Index of the largest score but `taken` (n for none), which counts as the lowest value; its weight. */
static COLIBRI_APART uint32_t colibri_near_winner(float *restrict weight, const float *restrict scores,
                                                  float *restrict near, uint32_t n, uint32_t taken, float width)
{
    const float lowest = colibri_from_bits((int32_t)0xFF800000u);
    uint32_t best = taken == 0 ? 1 : 0;
    for (uint32_t i = best + 1; i < n; i++) {
        const bool better = (i != taken) & (scores[i] > scores[best]);
        best ^= (best ^ i) & -(uint32_t)better;
    }
    const float top = scores[best];
    float largest = lowest;
    for (uint32_t i = 0; i < n; i++) {
        const float score = colibri_choose(i != taken, scores[i], lowest);
        const float magnitude = colibri_choose(scores[i] < 0.0f, -scores[i], scores[i]);
        const float scale = colibri_choose(magnitude > top, magnitude, top);
        near[i] = colibri_choose((top - score) / scale > width, lowest, score);
        largest = colibri_choose(near[i] > largest, near[i], largest);
    }
    float lane[8] = {0.0f};
    for (uint32_t i = 0; i < n; i++) {
        near[i] = colibri_exp(near[i] - largest);
        lane[i & 7] += near[i];
    }
    *weight = near[best] * (1.0f / colibri_lane_tree(lane));
    return best;
}

static COLIBRI_APART void colibri_sparse_mixer(uint32_t *restrict index, float *restrict weight, float *restrict scores,
                                               float *restrict near, uint32_t n, float width)
{
    for (uint32_t i = 0; i < n; i++) {
        scores[i] = colibri_choose(scores[i] == scores[i], scores[i], colibri_from_bits((int32_t)0xFF800000u));
    }
    float first_weight;
    float second_weight;
    const uint32_t first = colibri_near_winner(&first_weight, scores, near, n, n, width);
    const uint32_t second = colibri_near_winner(&second_weight, scores, near, n, first, width);
    const bool ascending = first < second;
    index[0] = ascending ? first : second;
    index[1] = ascending ? second : first;
    weight[0] = colibri_choose(ascending, first_weight, second_weight);
    weight[1] = colibri_choose(ascending, second_weight, first_weight);
}

#endif
