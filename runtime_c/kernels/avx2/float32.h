/* float32.h: fp32 functions of the numbers contract for eight values at a time, AVX2, and activations of whole rows.
 *
 * Each lane does what portable/float32.h does, in its order. Ends of rows are loaded and stored piece by piece: of a
 * masked load an emulator may read all bytes.
 */
#ifndef COLIBRI_FLOAT32_8_H
#define COLIBRI_FLOAT32_8_H

#include <immintrin.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "kernels/portable/shared.h"

/* The first live of 8 values, zeros behind them. */
COLIBRI_INSIDE __m256 colibri_load_some(const float *restrict x, uint32_t live)
{
    if (live >= 8) {
        return _mm256_loadu_ps(x);
    }
    const uint32_t four = live & 4;
    const uint32_t six = live & 6;
    __m128 rest = _mm_setzero_ps();
    if ((live & 1) != 0) {
        int32_t one; /* whatever the type of what lies there */
        __builtin_memcpy(&one, x + six, sizeof one);
        rest = _mm_castsi128_ps(_mm_cvtsi32_si128(one));
    }
    if ((live & 2) != 0) {
        rest = _mm_movelh_ps(_mm_loadl_pi(_mm_setzero_ps(), (const void *)(x + four)), rest);
    }
    return four != 0 ? _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x)), rest, 1)
                     : _mm256_zextps128_ps256(rest);
}

/* Store the first live of 8 values. */
COLIBRI_INSIDE void colibri_store_some(float *restrict y, __m256 values, uint32_t live)
{
    if (live >= 8) {
        _mm256_storeu_ps(y, values);
        return;
    }
    __m128 rest = _mm256_castps256_ps128(values);
    if ((live & 4) != 0) {
        _mm_storeu_ps(y, rest);
        rest = _mm256_extractf128_ps(values, 1);
        y += 4;
    }
    if ((live & 2) != 0) {
        _mm_storel_pi((void *)y, rest);
        rest = _mm_movehl_ps(rest, rest);
        y += 2;
    }
    if ((live & 1) != 0) {
        _mm_store_ss(y, rest);
    }
}

/* The first live of 8 values of half precision, zeros behind them. */
COLIBRI_INSIDE __m256 colibri_load_halves(const uint16_t *restrict x, uint32_t live)
{
    if (live >= 8) {
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));
    }
    uint16_t some[8] = {0};
    for (uint32_t i = 0; i < live; i++) {
        some[i] = x[i];
    }
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)some));
}

/* Lanes below live all ones, those from live on zeros. */
COLIBRI_INSIDE __m256 colibri_live_lanes(uint32_t live)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)live), lanes));
}

/* colibri_exp of each lane. */
COLIBRI_INSIDE __m256 colibri_exp_8(__m256 x)
{
    const __m256 live = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_GT_OQ);
    x = _mm256_min_ps(_mm256_and_ps(x, live), _mm256_set1_ps(88.0f));
    const __m256 round = _mm256_set1_ps(COLIBRI_ROUND);
    const __m256 t = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), round);
    const __m256i power = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(COLIBRI_ROUND_BITS - 127));
    const __m256 whole = _mm256_sub_ps(t, round);
    __m256 r = _mm256_sub_ps(x, _mm256_mul_ps(whole, _mm256_set1_ps(0x1.63p-1f)));
    r = _mm256_sub_ps(r, _mm256_mul_ps(whole, _mm256_set1_ps(-0x1.bd0106p-13f)));
    __m256 p = _mm256_set1_ps(1.0f / 720.0f);
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 120.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 24.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f / 6.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(0.5f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(1.0f));
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
    return _mm256_and_ps(p, live);
}

/* Lanes of two rows, the halves of each added: those of a below, those of b above. */
COLIBRI_INSIDE __m256 colibri_add_halves(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xF0), _mm256_permute2f128_ps(a, b, 0x21));
}

/* The same of the halves of each half: two of a, then two of b. */
COLIBRI_INSIDE __m256 colibri_add_quarters(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_blend_ps(a, b, 0xCC), _mm256_shuffle_ps(a, b, 0x4E));
}

/* colibri_lane_tree of eight rows' lanes. */
COLIBRI_INSIDE __m256 colibri_lane_trees(__m256 lanes0, __m256 lanes1, __m256 lanes2, __m256 lanes3, __m256 lanes4,
                                         __m256 lanes5, __m256 lanes6, __m256 lanes7)
{
    const __m256 a = colibri_add_quarters(colibri_add_halves(lanes0, lanes4), colibri_add_halves(lanes1, lanes5));
    const __m256 b = colibri_add_quarters(colibri_add_halves(lanes2, lanes6), colibri_add_halves(lanes3, lanes7));
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}

/* ---- activations ---- */

COLIBRI_INSIDE __m256 colibri_identity_8(__m256 x)
{
    return x;
}

/* The second operand of a maximum is what comes of NaN. */
COLIBRI_INSIDE __m256 colibri_relu_8(__m256 x)
{
    return _mm256_max_ps(x, _mm256_setzero_ps());
}

COLIBRI_INSIDE __m256 colibri_minus_8(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

COLIBRI_INSIDE __m256 colibri_silu_8(__m256 x)
{
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), colibri_exp_8(colibri_minus_8(x))));
}

COLIBRI_INSIDE __m256 colibri_sigmoid_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    return _mm256_div_ps(one, _mm256_add_ps(one, colibri_exp_8(colibri_minus_8(x))));
}

COLIBRI_INSIDE __m256 colibri_tanh_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 two = _mm256_set1_ps(2.0f);
    return _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(one, colibri_exp_8(_mm256_mul_ps(two, x)))));
}

COLIBRI_INSIDE __m256 colibri_gelu_tanh_8(__m256 x)
{
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
    const __m256 inner = _mm256_mul_ps(_mm256_add_ps(x, _mm256_mul_ps(cube, _mm256_set1_ps(0x1.6e4e26p-5f))),
                                       _mm256_set1_ps(0x1.988454p-1f));
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(0.5f)),
                         _mm256_add_ps(_mm256_set1_ps(1.0f), colibri_tanh_8(inner)));
}

COLIBRI_INSIDE __m256 colibri_gelu_8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    const __m256 t = _mm256_div_ps(one, _mm256_add_ps(one, _mm256_mul_ps(magnitude, _mm256_set1_ps(0x1.333334p-2f))));
    __m256 p = _mm256_set1_ps(0x1.27a384p-5f);
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(-0x1.457ec2p-3f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(0x1.acbd46p-3f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(-0x1.ce6e64p-5f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(0x1.0a4e42p-3f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(0x1.9768dap-4f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(0x1.eee78cp-4f));
    p = _mm256_add_ps(_mm256_mul_ps(p, t), _mm256_set1_ps(0x1.e9fb6cp-4f));
    const __m256 square = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(-0.5f));
    const __m256 tail = _mm256_mul_ps(colibri_exp_8(square), _mm256_mul_ps(p, t));
    const __m256 above = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_mul_ps(x, _mm256_blendv_ps(tail, _mm256_sub_ps(one, tail), above));
}

/* Of each activation: x = f(x), and up = f(gate) * up, for count values. */
#define COLIBRI_ROWS(name)                                                                                     \
    COLIBRI_SHARED void colibri_##name##_row(float *x, uint32_t count)                                         \
    {                                                                                                          \
        uint32_t i = 0;                                                                                        \
        for (; i + 8 <= count; i += 8) {                                                                       \
            _mm256_storeu_ps(x + i, colibri_##name##_8(_mm256_loadu_ps(x + i)));                               \
        }                                                                                                      \
        if (i < count) {                                                                                       \
            colibri_store_some(x + i, colibri_##name##_8(colibri_load_some(x + i, count - i)), count - i);     \
        }                                                                                                      \
    }                                                                                                          \
                                                                                                               \
    COLIBRI_SHARED void colibri_##name##_times(float *restrict up, const float *restrict gate, uint32_t count) \
    {                                                                                                          \
        uint32_t i = 0;                                                                                        \
        for (; i + 8 <= count; i += 8) {                                                                       \
            const __m256 value = colibri_##name##_8(_mm256_loadu_ps(gate + i));                                \
            _mm256_storeu_ps(up + i, _mm256_mul_ps(value, _mm256_loadu_ps(up + i)));                           \
        }                                                                                                      \
        if (i < count) {                                                                                       \
            const __m256 value = colibri_##name##_8(colibri_load_some(gate + i, count - i));                   \
            colibri_store_some(up + i, _mm256_mul_ps(value, colibri_load_some(up + i, count - i)), count - i); \
        }                                                                                                      \
    }

COLIBRI_ROWS(identity)
COLIBRI_ROWS(relu)
COLIBRI_ROWS(silu)
COLIBRI_ROWS(sigmoid)
COLIBRI_ROWS(tanh)
COLIBRI_ROWS(gelu)
COLIBRI_ROWS(gelu_tanh)

COLIBRI_INSIDE __m256 colibri_clipped_swiglu_8(__m256 gate, __m256 up, float alpha, float limit)
{
    const __m256 most = _mm256_set1_ps(limit);
    gate = _mm256_min_ps(gate, most);
    up = _mm256_min_ps(_mm256_max_ps(up, _mm256_set1_ps(-limit)), most);
    const __m256 gated = _mm256_mul_ps(gate, colibri_sigmoid_8(_mm256_mul_ps(gate, _mm256_set1_ps(alpha))));
    return _mm256_mul_ps(_mm256_add_ps(up, _mm256_set1_ps(1.0f)), gated);
}

/* up = clipped_swiglu(gate, up) for count values. */
static inline void colibri_clipped_swiglu_row(float *restrict up, const float *restrict gate, uint32_t count,
                                              float alpha, float limit)
{
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(up + i,
                         colibri_clipped_swiglu_8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i), alpha, limit));
    }
    if (i < count) {
        const uint32_t live = count - i;
        const __m256 gates = colibri_load_some(gate + i, live);
        colibri_store_some(up + i, colibri_clipped_swiglu_8(gates, colibri_load_some(up + i, live), alpha, limit),
                           live);
    }
}

#endif
