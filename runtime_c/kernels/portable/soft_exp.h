/* soft_exp.h: e^x in integers for cores without an FPU: bit for bit what the float operations of colibri_exp give, at a
 * fraction of the instructions. Wherever a float operation rounds, this rounds to 24 bits, too, ties to even.
 */
#ifndef COLIBRI_SOFT_EXP_H
#define COLIBRI_SOFT_EXP_H

#include <stdint.h>

/* A function of its own wherever it is called. Left alone, compilers copy a long one into some callers and not into others,
 * and nobody could foretell the size of the code. */
#define COLIBRI_APART __attribute__((noinline, unused))

/* The lesser of two below 2^31, by the sign of their difference: of a compare some compilers make a branch. */
static inline uint32_t colibri_soft_least(uint32_t a, uint32_t b)
{
    const uint32_t apart = a - b;
    return b + (apart & -(apart >> 31));
}

/* value / 2^shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static inline uint32_t colibri_soft_round(uint32_t value, uint32_t shift)
{
    const uint32_t whole = value >> shift;
    const uint32_t rest = value << (32 - shift);
    return whole + (rest + (whole & 1) > 0x80000000u);
}

/* The product of two significands of 24 bits: its upper 31 or 32 bits, the last one set if more bits follow. */
static inline uint32_t colibri_soft_product(uint32_t a, uint32_t b)
{
    const uint64_t product = (uint64_t)a * b;
    return (uint32_t)(product >> 16) | ((product & 0xFFFF) != 0);
}

/* p * r + c, of positive p and c as fp32 bits, where |p * r| is at most half of c.
 *
 * r: its magnitude as fp32 bits, and its sign as a mask. */
static inline uint32_t colibri_soft_step(uint32_t p, uint32_t r, uint32_t minus, uint32_t c)
{
    const uint32_t product = colibri_soft_product((p & 0x7FFFFF) | 0x800000, (r & 0x7FFFFF) | 0x800000);
    const uint32_t top = product >> 31;
    const uint32_t part = colibri_soft_round(product, 7 + top) << 7; /* 2^30 to 2^31, as c is below */

    /* How far its exponent is below that of c. */
    const uint32_t below = colibri_soft_least((c >> 23) + 127 - (p >> 23) - (r >> 23) - top, 31);
    const uint32_t lost = (part << 1 << (31 - below)) != 0;
    const uint32_t term = part >> below | lost;

    const uint32_t sum = ((c & 0x7FFFFF) | 0x800000) * 128 + ((term ^ minus) - minus); /* 2^29 to 2^32 */
    const uint32_t shift = 6 + (sum >> 31) + (uint32_t)(sum >= 1u << 30); /* by its leading bit */
    return colibri_soft_round(sum, shift) + ((c >> 23) + shift - 8) * 0x800000; /* 2^24 carries into the exponent */
}

/* The nearest integer of x * log2(e), the product being rounded before, ties to even. x: fp32 bits of a magnitude. */
static inline uint32_t colibri_soft_octaves(uint32_t x)
{
    const uint32_t product = colibri_soft_product((x & 0x7FFFFF) | 0x800000, 0xB8AA3B);
    const uint32_t top = product >> 31;
    const uint32_t shift = colibri_soft_least(150 - (x >> 23) - top, 31); /* at least 17 */
    return colibri_soft_round(colibri_soft_round(product, 7 + top), shift);
}

/* r = (x - n * 355 / 512) + n * 0xDE8083 / 2^36, as magnitude and sign: the difference is exact, the second product and
 * the sum are rounded. Holds for n other than 0. */
static inline uint32_t colibri_soft_rest(uint32_t x, uint32_t x_minus, uint32_t n, uint32_t *minus)
{
    /* Of a magnitude from 1/4 to below 128, and modulo 2^32: the difference is below 2^24. In units of 2^-25. */
    const uint32_t wide = ((x & 0x7FFFFF) | 0x800000) << (((x >> 23) - 125) & 15);
    const uint32_t near = wide - n * (355u << 16);

    const uint32_t product = n * 0xDE8083u;
    const uint32_t more = 8 - (uint32_t)__builtin_clz(product | 0x800000); /* bits beyond 24 */
    const uint32_t up = ((1u << more >> 1) - 1 + (product >> more & 1)) & -(uint32_t)(more != 0);
    const uint32_t far = (product + up) >> more << more;

    /* Both have the sign of x until here. In units of 2^-36. */
    const int64_t sum = (int64_t)(int32_t)near * 2048 + (int64_t)far;
    const uint64_t sign = -((uint64_t)sum >> 63);
    const uint64_t magnitude = ((uint64_t)sum ^ sign) - sign;
    *minus = x_minus ^ (uint32_t)sign;

    const uint32_t large = -(uint32_t)(magnitude >> 31 != 0);
    const uint32_t fewer = (uint32_t)(magnitude >> 4) | ((magnitude & 15) != 0);
    uint32_t value = (fewer & large) | ((uint32_t)magnitude & ~large);
    value |= value == 0; /* which is as good as nothing */
    const uint32_t zeros = (uint32_t)__builtin_clz(value);
    return colibri_soft_round(value << zeros, 8) + (121 + (4 & large) - zeros) * 0x800000;
}

/* e^x of -87 < x <= 88, as fp32 bits. One function: it is long, and the call costs little. */
static COLIBRI_APART uint32_t colibri_soft_exp(uint32_t x)
{
    const uint32_t x_minus = -(x >> 31);
    x &= 0x7FFFFFFF;
    const uint32_t n = colibri_soft_octaves(x);
    uint32_t minus;
    uint32_t r = colibri_soft_rest(x, x_minus, n, &minus);
    const uint32_t none = -(uint32_t)(n == 0);
    r ^= (r ^ x) & none;
    minus ^= (minus ^ x_minus) & none;

    uint32_t p = 0x3AB60B61;                         /* 1/720 */
    p = colibri_soft_step(p, r, minus, 0x3C088889);  /* 1/120 */
    p = colibri_soft_step(p, r, minus, 0x3D2AAAAB);  /* 1/24 */
    p = colibri_soft_step(p, r, minus, 0x3E2AAAAB);  /* 1/6 */
    p = colibri_soft_step(p, r, minus, 0x3F000000);
    p = colibri_soft_step(p, r, minus, 0x3F800000);
    p = colibri_soft_step(p, r, minus, 0x3F800000);
    return p + ((n ^ x_minus) - x_minus) * 0x800000;
}

#endif
