/* float32.h: fp32 functions of the numbers contract: only + - * / sqrt, compares and bit moves, in the written order,
 * so that every processor gives the same bits.
 *
 * Compile with -ffp-contract=off, which no macro shows: colibri_check_arithmetic asks at run time. Never with -ffast-math.
 */
#ifndef COLIBRI_FLOAT32_H
#define COLIBRI_FLOAT32_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include "kernels/portable/soft_exp.h"

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "the bits of every float are part of the model: compile without -ffast-math and all parts of it"
#endif

/* 16 concerns only types narrower than float. */
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "the bits of every float are part of the model: floats must be computed as floats, not wider (no x87)"
#endif

#if defined(__x86_64__) || defined(__aarch64__) || defined(__ARM_FP) || defined(__riscv_flen) || defined(__wasm__)
#define COLIBRI_HAS_FPU
#endif

/* Adding 1.5 * 2^23 leaves the nearest integer, ties to even, in the low bits: valid for |x| < 2^22. */
#define COLIBRI_ROUND 12582912.0f
#define COLIBRI_ROUND_BITS 0x4B400000

static inline int32_t colibri_bits(float x)
{
    union {
        float f;
        int32_t i;
    } u = {.f = x};
    return u.i;
}

static inline float colibri_from_bits(int32_t bits)
{
    union {
        int32_t i;
        float f;
    } u = {.i = bits};
    return u.f;
}

/* The nearest integer of x, ties to even; |x| < 2^22. */
static inline int32_t colibri_nearest(float x)
{
    return colibri_bits(x + COLIBRI_ROUND) - COLIBRI_ROUND_BITS;
}

static inline float colibri_abs(float x)
{
    return colibri_from_bits(colibri_bits(x) & 0x7FFFFFFF);
}

/* a where the condition holds, else b. By masks: a branch would make the time depend on the data. */
static inline float colibri_choose(bool condition, float a, float b)
{
    const int32_t mask = -(int32_t)condition;
    return colibri_from_bits((colibri_bits(a) & mask) | (colibri_bits(b) & ~mask));
}

/* The larger one. A branch would make the time depend on the data; Thumb-2 has moves under a condition. */
static inline uint32_t colibri_most(uint32_t a, uint32_t b)
{
#ifdef __thumb2__
    return b > a ? b : a;
#else
    return a ^ ((a ^ b) & -(uint32_t)(b > a));
#endif
}

static inline int32_t colibri_larger(int32_t a, int32_t b)
{
#ifdef __thumb2__
    return b > a ? b : a;
#else
    return a ^ ((a ^ b) & -(int32_t)(b > a));
#endif
}

static inline uint32_t colibri_least(uint32_t a, uint32_t b)
{
#ifdef __thumb2__
    return b < a ? b : a;
#else
    return a ^ ((a ^ b) & -(uint32_t)(b < a));
#endif
}

/* Outputs carry one NaN, since its sign and payload differ between processors. */
static inline float colibri_canonical(float x)
{
    return x == x ? x : colibri_from_bits(0x7FC00000);
}

/* The nearest integer of x within +-most, ties to even; NaN is -most. most is an integer below 2^22. */
static inline int32_t colibri_nearest_within(float x, float most)
{
#ifdef COLIBRI_HAS_FPU
    x = colibri_choose(x > -most, x, -most);
    x = colibri_choose(x < most, x, most);
    return colibri_nearest(x);
#else
    /* The same by integers: two compares and a sum would be three calls. */
    const uint32_t bits = (uint32_t)colibri_bits(x);
    const uint32_t limit = (uint32_t)colibri_bits(most);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t negative = -(bits >> 31 | (magnitude > 0x7F800000));
    magnitude = colibri_soft_least(magnitude, limit);
    const uint32_t shift = colibri_soft_least(150 - (magnitude >> 23), 31); /* from 2; of 25 and more nothing is left */
    const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
    const uint32_t whole = mantissa >> shift;
    const uint32_t rest = mantissa << (32 - shift);
    const uint32_t nearest = whole + (rest + (whole & 1) > 0x80000000);
    return (int32_t)((nearest ^ negative) - negative);
#endif
}

/* The same of an x that is within +-most but for roundings, or NaN, whose bits then lie far outside. */
static inline int32_t colibri_nearest_scaled(float x, float most)
{
#ifdef COLIBRI_HAS_FPU
    const int32_t limit = (int32_t)most;
    const int32_t above = colibri_nearest(x) + limit; /* 0 to 2 * limit */
    return (above & ~((above | (2 * limit - above)) >> 31)) - limit;
#else
    return colibri_nearest_within(x, most);
#endif
}

/* Square root, correctly rounded. Without an FPU it is worked out bit by bit; x must not be negative. */
static inline float colibri_sqrt(float x)
{
#ifdef COLIBRI_HAS_FPU
    return __builtin_sqrtf(x);
#else
    int32_t bits = colibri_bits(x);
    if (bits <= 0 || bits >= 0x7F800000) {
        return x; /* zero, infinity or NaN */
    }
    int32_t exponent = bits >> 23;
    uint32_t mantissa = (uint32_t)bits & 0x7FFFFF;
    if (exponent == 0) {
        exponent = 1; /* a denormal: shift it until the leading bit stands where a normal number has it */
        while ((mantissa & 0x800000) == 0) {
            mantissa <<= 1;
            exponent--;
        }
    }
    exponent -= 127;
    mantissa = (mantissa | 0x800000) << (1 + (exponent & 1));
    exponent = (exponent - (exponent & 1)) / 2;

    uint32_t root = 0;
    uint32_t rest = 0;
    for (int i = 0; i < 25; i++) { /* 24 bits of the root and one more to round by */
        rest = (rest << 2) | (i < 13 ? (mantissa >> (24 - 2 * i)) & 3 : 0);
        uint32_t trial = (root << 2) | 1;
        root <<= 1;
        const uint32_t fits = rest >= trial;
        rest -= trial & -fits;
        root |= fits;
    }
    /* A root never lies half way between two floats, so the last bit alone decides. */
    root = (root + 1) >> 1;
    return colibri_from_bits((int32_t)root + (exponent + 126) * 0x800000);
#endif
}

/* e^x; 0 for x <= -87 and for NaN; x above 88 counts as 88. */
static inline float colibri_exp(float x)
{
#ifndef COLIBRI_HAS_FPU
    const uint32_t bits = (uint32_t)colibri_bits(x);
    const uint32_t sign = bits & 0x80000000;
    uint32_t magnitude = bits & 0x7FFFFFFF;
    /* Magnitudes below 87 on the one side, up to infinity on the other. */
    const uint32_t alive = -(uint32_t)(magnitude < 0x7F800001u - (0x3CD20001u & -(sign >> 31)));
    magnitude = colibri_soft_least(magnitude, 0x42B00000);
    return colibri_from_bits((int32_t)(colibri_soft_exp((magnitude | sign) & alive) & alive));
#else
    const int32_t live = -(int32_t)(x > -87.0f);
    const int32_t bits = colibri_bits(x) & live;
    x = colibri_from_bits(bits ^ ((bits ^ 0x42B00000) & -(int32_t)(bits > 0x42B00000))); /* 88 at most */
    float t = x * 0x1.715476p+0f + COLIBRI_ROUND;
    int32_t power = colibri_bits(t) - COLIBRI_ROUND_BITS;
    float whole = t - COLIBRI_ROUND;
    float r = x - whole * 0x1.63p-1f;
    r = r - whole * -0x1.bd0106p-13f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    p = p * colibri_from_bits((power + 127) * 0x800000);
    return colibri_from_bits(colibri_bits(p) & live);
#endif
}

static inline float colibri_identity(float x)
{
    return x;
}

static inline float colibri_relu(float x)
{
    return colibri_choose(x > 0.0f, x, 0.0f);
}

static inline float colibri_sigmoid(float x)
{
    return 1.0f / (1.0f + colibri_exp(-x));
}

static inline float colibri_silu(float x)
{
    return x / (1.0f + colibri_exp(-x));
}

static inline float colibri_tanh(float x)
{
    return 1.0f - 2.0f / (1.0f + colibri_exp(2.0f * x));
}

static inline float colibri_gelu_tanh(float x)
{
    float inner = (x + (x * x * x) * 0x1.6e4e26p-5f) * 0x1.988454p-1f;
    return (x * 0.5f) * (1.0f + colibri_tanh(inner));
}

/* x * (1 + erf(x / sqrt(2))) / 2: p * t is erfc(a / sqrt(2)) * e^(a^2 / 2) / 2 of the magnitude a. */
static inline float colibri_gelu(float x)
{
    const float t = 1.0f / (1.0f + colibri_abs(x) * 0x1.333334p-2f);
    float p = 0x1.27a384p-5f;
    p = p * t + -0x1.457ec2p-3f;
    p = p * t + 0x1.acbd46p-3f;
    p = p * t + -0x1.ce6e64p-5f;
    p = p * t + 0x1.0a4e42p-3f;
    p = p * t + 0x1.9768dap-4f;
    p = p * t + 0x1.eee78cp-4f;
    p = p * t + 0x1.e9fb6cp-4f;
    const float tail = colibri_exp((x * x) * -0.5f) * (p * t);
    return x * colibri_choose(x > 0.0f, 1.0f - tail, tail);
}

/* (up + 1) * (gate * sigmoid(gate * alpha)) with gate at most limit and up within it. */
static inline float colibri_clipped_swiglu(float gate, float up, float alpha, float limit)
{
    gate = colibri_choose(gate < limit, gate, limit);
    up = colibri_choose(up > -limit, up, -limit);
    up = colibri_choose(up < limit, up, limit);
    return (up + 1.0f) * (gate * colibri_sigmoid(gate * alpha));
}

/* The written order of every sum within a row: 8 strided lanes, then upper halves onto lower halves. */
static inline float colibri_lane_tree(const float lane[8])
{
    float a = lane[0] + lane[4];
    float b = lane[1] + lane[5];
    float c = lane[2] + lane[6];
    float d = lane[3] + lane[7];
    a = a + c;
    b = b + d;
    return a + b;
}

#endif
