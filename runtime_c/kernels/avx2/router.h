/* router.h: choose the k largest of n scores, AVX2; ties go to the lower index, NaN counts as the smallest.
 *
 * As portable/router.h. Up to 16 scores are ranked, each by how many come before it; for two of more, lanes keep their
 * largest and second; else the largest is taken out k times. Branches depend on no score, but for whether of more than 16
 * exactly two reach the second, above minus infinity.
 */
#ifndef COLIBRI_ROUTER_H
#define COLIBRI_ROUTER_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/avx2/float32.h"

/* Below the key of any score. */
#define COLIBRI_TAKEN INT32_MIN

/* Up to 8 of n scores from i on; NaN and those behind the last become minus infinity. */
COLIBRI_INSIDE __m256 colibri_scores_8(const float *restrict scores, uint32_t i, uint32_t n)
{
    const __m256 lowest = _mm256_set1_ps(colibri_from_bits((int32_t)0xFF800000u));
    if (i + 8 <= n) {
        return _mm256_max_ps(_mm256_loadu_ps(scores + i), lowest);
    }
    const __m256 some = _mm256_max_ps(colibri_load_some(scores + i, n - i), lowest);
    return _mm256_blendv_ps(lowest, some, colibri_live_lanes(n - i));
}

/* Integers ordered as these scores, -0 being +0. The same again brings the scores back. */
COLIBRI_INSIDE __m256i colibri_keys_8(__m256 scores)
{
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(scores, _mm256_setzero_ps()));
    return _mm256_xor_si256(bits, _mm256_srli_epi32(_mm256_srai_epi32(bits, 31), 1));
}

/* Of keys i: so many more that are before them, of the n keys of which `first` is the number of lane 0. */
COLIBRI_INSIDE __m256i colibri_before_8(__m256i before, __m256i keys, uint32_t i, __m256i others, uint32_t first,
                                        uint32_t n)
{
    const __m256i places = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((int32_t)i));
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; j++) {
        if (first + j < n) {
            const __m256i other = _mm256_permutevar8x32_epi32(others, _mm256_set1_epi32((int32_t)j));
            /* Equal ones of lower index are before it, too. */
            const __m256i later = _mm256_cmpgt_epi32(places, _mm256_set1_epi32((int32_t)(first + j)));
            before = _mm256_sub_epi32(before, _mm256_cmpgt_epi32(_mm256_sub_epi32(other, later), keys));
        }
    }
    return before;
}

/* n of at most 16. */
COLIBRI_INSIDE void colibri_top_ranked(uint32_t *restrict index, const float *restrict scores, uint32_t n, uint32_t k)
{
    const __m256i most = _mm256_set1_epi32((int32_t)k);
    const __m256i low = colibri_keys_8(colibri_scores_8(scores, 0, n));
    __m256i before = colibri_before_8(_mm256_setzero_si256(), low, 0, low, 0, n);
    uint32_t chosen;
    if (n <= 8) {
        chosen = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(most, before)));
    } else {
        const __m256i high = colibri_keys_8(colibri_scores_8(scores, 8, n));
        before = colibri_before_8(before, low, 0, high, 8, n);
        __m256i behind = colibri_before_8(_mm256_setzero_si256(), high, 8, low, 0, n);
        behind = colibri_before_8(behind, high, 8, high, 8, n);
        chosen = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(most, before)));
        chosen |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(most, behind))) << 8;
    }
    for (uint32_t slot = 0; slot < k; slot++) {
        index[slot] = (uint32_t)__builtin_ctz(chosen);
        chosen &= chosen - 1;
    }
}

/* The largest and the second of two pairs of these, in each lane. */
COLIBRI_INSIDE void colibri_merge_pairs(__m256 *first, __m256 *second, __m256 other_first, __m256 other_second)
{
    const __m256 lesser = _mm256_min_ps(*first, other_first);
    *first = _mm256_max_ps(*first, other_first);
    *second = _mm256_max_ps(lesser, _mm256_max_ps(*second, other_second));
}

/* All ones where one of the 8 scores from i on is at least a value, which is above minus infinity. */
COLIBRI_INSIDE __m256i colibri_reach_8(const float *restrict scores, uint32_t i, uint32_t n, __m256 value)
{
    if (i >= n) {
        return _mm256_setzero_si256();
    }
    const __m256 some = i + 8 <= n ? _mm256_loadu_ps(scores + i) : colibri_scores_8(scores, i, n);
    return _mm256_castps_si256(_mm256_cmp_ps(some, value, _CMP_GE_OQ));
}

/* Which of up to 32 scores from i on are at least this value. */
COLIBRI_INSIDE uint64_t colibri_reach_32(const float *restrict scores, uint32_t i, uint32_t n, __m256 value)
{
    const __m256i low =
        _mm256_packs_epi32(colibri_reach_8(scores, i, n, value), colibri_reach_8(scores, i + 8, n, value));
    const __m256i high =
        _mm256_packs_epi32(colibri_reach_8(scores, i + 16, n, value), colibri_reach_8(scores, i + 24, n, value));
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

/* Where the lowest bit is, beyond base; none if there is none. */
COLIBRI_INSIDE uint32_t colibri_lowest_bit(uint64_t bits, uint32_t base, uint32_t none)
{
    const uint32_t found = base + (uint32_t)_tzcnt_u64(bits);
    return none ^ ((none ^ found) & -(uint32_t)(bits != 0));
}

/* Up to 8 of n keys from i on. */
COLIBRI_INSIDE __m256i colibri_taken_8(const float *restrict keys, uint32_t i, uint32_t n)
{
    if (i + 8 <= n) {
        return _mm256_loadu_si256((const void *)(keys + i));
    }
    const __m256 taken = _mm256_castsi256_ps(_mm256_set1_epi32(COLIBRI_TAKEN));
    return _mm256_castps_si256(_mm256_blendv_ps(taken, colibri_load_some(keys + i, n - i), colibri_live_lanes(n - i)));
}

/* scores are keys meanwhile, and come back with NaN as minus infinity. value: scratch [k]. */
COLIBRI_INSIDE void colibri_top_k(uint32_t *restrict index, float *restrict value, float *restrict scores, uint32_t n,
                                  uint32_t k)
{
    for (uint32_t i = 0; i < n; i += 8) {
        const __m256i keys = colibri_keys_8(colibri_scores_8(scores, i, n));
        colibri_store_some(scores + i, _mm256_castsi256_ps(keys), n - i);
    }
    for (uint32_t chosen = 0; chosen < k; chosen++) {
        __m256i top = _mm256_set1_epi32(COLIBRI_TAKEN);
        for (uint32_t i = 0; i < n; i += 8) {
            top = _mm256_max_epi32(top, colibri_taken_8(scores, i, n));
        }
        top = _mm256_max_epi32(top, _mm256_permute2x128_si256(top, top, 0x01));
        top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0x4E));
        top = _mm256_max_epi32(top, _mm256_shuffle_epi32(top, 0xB1));
        uint32_t best = 0;
        for (uint32_t base = (n - 1) / 64 * 64;; base -= 64) {
            uint64_t equal = 0;
            for (uint32_t j = 0; j < 64 && base + j < n; j += 8) {
                const __m256i same = _mm256_cmpeq_epi32(colibri_taken_8(scores, base + j, n), top);
                equal |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) << j;
            }
            best = colibri_lowest_bit(equal, base, best);
            if (base == 0) {
                break;
            }
        }
        index[chosen] = best;
        value[chosen] = scores[best];
        scores[best] = colibri_from_bits(COLIBRI_TAKEN);
    }
    for (uint32_t i = 0; i < k; i++) {
        scores[index[i]] = value[i];
    }
    for (uint32_t i = 0; i < n; i += 8) {
        const __m256i keys = colibri_taken_8(scores, i, n);
        const __m256i bits = _mm256_xor_si256(keys, _mm256_srli_epi32(_mm256_srai_epi32(keys, 31), 1));
        colibri_store_some(scores + i, _mm256_castsi256_ps(bits), n - i);
    }
    for (uint32_t chosen = 1; chosen < k; chosen++) {
        for (uint32_t slot = chosen; slot > 0; slot--) { /* the new one moves down to its place */
            const uint32_t swap = (index[slot - 1] ^ index[slot]) & -(uint32_t)(index[slot - 1] > index[slot]);
            index[slot - 1] ^= swap;
            index[slot] ^= swap;
        }
    }
}

COLIBRI_INSIDE void colibri_top_2(uint32_t *restrict index, float *restrict value, float *restrict scores, uint32_t n)
{
    const __m256 lowest = _mm256_set1_ps(colibri_from_bits((int32_t)0xFF800000u));
    __m256 first[4] = {lowest, lowest, lowest, lowest};
    __m256 second[4] = {lowest, lowest, lowest, lowest};
    for (uint32_t i = 0; i < n; i += 32) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            if (i + 8 * j < n) {
                const __m256 some =
                    i + 8 * j + 8 <= n ? _mm256_loadu_ps(scores + i + 8 * j) : colibri_scores_8(scores, i + 8 * j, n);
                /* The second operand is what comes of NaN: neither changes. */
                second[j] = _mm256_max_ps(_mm256_min_ps(first[j], some), second[j]);
                first[j] = _mm256_max_ps(some, first[j]);
            }
        }
    }
    colibri_merge_pairs(&first[0], &second[0], first[2], second[2]);
    colibri_merge_pairs(&first[1], &second[1], first[3], second[3]);
    colibri_merge_pairs(&first[0], &second[0], first[1], second[1]);
    __m256 top = first[0];
    __m256 next = second[0];
    colibri_merge_pairs(&top, &next, _mm256_permute2f128_ps(top, top, 0x01), _mm256_permute2f128_ps(next, next, 0x01));
    colibri_merge_pairs(&top, &next, _mm256_permute_ps(top, 0x4E), _mm256_permute_ps(next, 0x4E));
    colibri_merge_pairs(&top, &next, _mm256_permute_ps(top, 0xB1), _mm256_permute_ps(next, 0xB1));

    uint32_t best = 0;
    uint32_t other = 0;
    uint64_t count = 0;
    for (uint32_t base = (n - 1) / 64 * 64;; base -= 64) { /* from the end on: the lower of both is found last */
        const uint64_t bits = colibri_reach_32(scores, base, n, next) | colibri_reach_32(scores, base + 32, n, next)
                                                                            << 32;
        other ^= (other ^ best) & -(uint32_t)(bits != 0);
        other = colibri_lowest_bit(bits & (bits - 1), base, other);
        best = colibri_lowest_bit(bits, base, best);
        count += (uint64_t)_mm_popcnt_u64(bits);
        if (base == 0) {
            break;
        }
    }
    if (count != 2 || _mm256_cvtss_f32(next) == _mm256_cvtss_f32(lowest)) { /* equal ones, or NaN among the largest */
        colibri_top_k(index, value, scores, n, 2);
        return;
    }
    index[0] = best;
    index[1] = other;
}

/* The indices of the k largest, ascending. value: scratch [k]; scores may lose NaN and the sign of 0. */
COLIBRI_INSIDE void colibri_choose_experts(uint32_t *restrict index, float *restrict value, float *restrict scores,
                                           uint32_t n, uint32_t k)
{
    if (n <= 16) {
        colibri_top_ranked(index, scores, n, k);
    } else if (k == 2) {
        colibri_top_2(index, value, scores, n);
    } else {
        colibri_top_k(index, value, scores, n, k);
    }
}

COLIBRI_INSIDE void colibri_router(uint32_t *restrict index, float *restrict weight, float *restrict scores, uint32_t n,
                                   uint32_t k, bool renormalise)
{
    colibri_choose_experts(index, weight, scores, n, k);
    const __m256 lowest = _mm256_set1_ps(colibri_from_bits((int32_t)0xFF800000u));
    if (renormalise && k == 2) {
        const __m128 chosen = _mm_unpacklo_ps(_mm_load_ss(scores + index[0]), _mm_load_ss(scores + index[1]));
        __m128 top = _mm_max_ps(chosen, _mm256_castps256_ps128(lowest));
        top = _mm_max_ps(_mm_permute_ps(top, 0xE1), top);
        const __m128 terms = _mm256_castps256_ps128(colibri_exp_8(_mm256_castps128_ps256(_mm_sub_ps(chosen, top))));
        const __m128 total = _mm_add_ps(terms, _mm_permute_ps(terms, 0xE1));
        _mm_storel_pi((void *)weight, _mm_div_ps(terms, total));
        return;
    }
    if (renormalise) {
        float top = colibri_from_bits((int32_t)0xFF800000u);
        for (uint32_t i = 0; i < k; i++) {
            weight[i] = scores[index[i]];
            top = colibri_choose(weight[i] > top, weight[i], top);
        }
        for (uint32_t i = 0; i < k; i += 8) {
            const __m256 some = colibri_load_some(weight + i, k - i);
            colibri_store_some(weight + i, colibri_exp_8(_mm256_sub_ps(some, _mm256_set1_ps(top))), k - i);
        }
        float total = weight[0];
        for (uint32_t i = 1; i < k; i++) {
            total = total + weight[i];
        }
        for (uint32_t i = 0; i < k; i += 8) {
            const __m256 some = colibri_load_some(weight + i, k - i);
            colibri_store_some(weight + i, _mm256_div_ps(some, _mm256_set1_ps(total)), k - i);
        }
        return;
    }

    __m256 top = lowest;
    for (uint32_t i = 0; i < n; i += 8) {
        top = _mm256_max_ps(top, colibri_scores_8(scores, i, n));
    }
    top = _mm256_max_ps(top, _mm256_permute2f128_ps(top, top, 0x01));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0x4E));
    top = _mm256_max_ps(top, _mm256_permute_ps(top, 0xB1));
    __m256 lanes = _mm256_setzero_ps();
    for (uint32_t i = 0; i < n; i += 8) {
        const __m256 terms = colibri_exp_8(_mm256_sub_ps(colibri_scores_8(scores, i, n), top));
        lanes = _mm256_add_ps(lanes, terms);
        colibri_store_some(scores + i, terms, n - i);
    }
    float lane[8];
    _mm256_storeu_ps(lane, lanes);
    const float inverse = 1.0f / colibri_lane_tree(lane);
    for (uint32_t i = 0; i < k; i++) {
        weight[i] = scores[index[i]] * inverse;
    }
}

#endif
