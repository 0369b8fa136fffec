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

/* By how much a is above b, or 0; both below 2^31. */
static inline uint32_t colibri_soft_above(uint32_t a, uint32_t b)
{
    const uint32_t apart = a - b;
    return apart & ~-(apart >> 31);
}

/* value / 2^shift, rounded to nearest, ties to even; 1 <= shift <= 31, and value below 2^32 - 2^(shift - 1). */
static inline uint32_t colibri_soft_round(uint32_t value, uint32_t shift)
{
    return (value + ((1u << shift >> 1) - 1) + (value >> shift & 1)) >> shift;
}

/* The same of any value, by 8 bits: the bit below decides, if one behind it or the last one of the result is set. */
static inline uint32_t colibri_soft_round_byte(uint32_t value)
{
    return (value >> 8) + ((value >> 7) & ((value & 0x17F) != 0));
}

/* The product of two significands of 24 bits: its upper 31 or 32 bits, the last one set if more bits follow. */
static inline uint32_t colibri_soft_product(uint32_t a, uint32_t b)
{
#if defined(__thumb__) && !defined(__thumb2__)
    /* By halves: Armv6-M has no product of 64 bits. */
    const uint32_t low = (a & 0xFFFF) * (b & 0xFFFF);
    const uint32_t middle = (a >> 16) * (b & 0xFFFF) + (a & 0xFFFF) * (b >> 16);
    return ((low >> 16) + middle + ((a >> 16) * (b >> 16) << 16)) | ((low & 0xFFFF) != 0);
#else
    const uint64_t product = (uint64_t)a * b;
    return (uint32_t)(product >> 16) | ((product & 0xFFFF) != 0);
#endif
}

/* 24 bits of such a product, whose upper part is below 2^32 - 2^7; top: whether it has 32 bits. */
static inline uint32_t colibri_soft_top_bits(uint32_t product, uint32_t top)
{
    return (product + 0x3F + (top << 6) + (product >> (7 + top) & 1)) >> (7 + top);
}

/* 128 * c + p * r, in units of the last bit of c, by 128: 2^29 to 2^31. The product is rounded to 24 bits before.
 *
 * c: 128 times its significand, which the product is at most half of. p, r: significands. below: how far the product's
 * exponent is below that of c if it has 31 bits; 2 to 31. minus: the sign of r as a mask. */
static inline uint32_t colibri_soft_step(uint32_t p, uint32_t r, uint32_t below, uint32_t minus, uint32_t c)
{
    const uint32_t product = colibri_soft_product(p, r);
    const uint32_t top = product >> 31;
    const uint32_t part = colibri_soft_top_bits(product, top) << 7;
    const uint32_t shift = below - top;
    const uint32_t term = part >> shift | (part << (32 - shift) != 0);
    return c + ((term ^ minus) - minus);
}

/* The nearest integer of x * log2(e), the product being rounded before, ties to even. x: fp32 bits of a magnitude. */
static inline uint32_t colibri_soft_octaves(uint32_t x)
{
    const uint32_t product = colibri_soft_product((x & 0x7FFFFF) | 0x800000, 0xB8AA3B);
    const uint32_t top = product >> 31;
    const uint32_t shift = colibri_soft_least(150 - (x >> 23) - top, 31); /* at least 17 */
    return colibri_soft_round(colibri_soft_top_bits(product, top), shift);
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
    return colibri_soft_round_byte(value << zeros) + (121 + (4 & large) - zeros) * 0x800000;
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

    /* Of |r| < 0.35 all exponents of p are known but for the last three, which may be one less than that of c. An r below
     * 2^-27 adds nothing. */
    const uint32_t exponent = 100 + colibri_soft_above(r >> 23, 100);
    const uint32_t below = 129 - exponent;
    r = (r & 0x7FFFFF) | 0x800000;
    uint32_t p = colibri_soft_round(colibri_soft_step(0xB60B61, r, below + 1, minus, 0x888889u << 7), 7); /* 1/720, 1/120 */
    p = colibri_soft_round(colibri_soft_step(p, r, below, minus, 0xAAAAABu << 7), 7);                     /* 1/24 */
    p = colibri_soft_round(colibri_soft_step(p, r, below, minus, 0xAAAAABu << 7), 7);                     /* 1/6 */
    uint32_t sum = colibri_soft_step(p, r, below, minus, 0x800000u << 7);                                 /* 1/2 */
    uint32_t whole = sum >> 30;
    sum = colibri_soft_step(colibri_soft_round(sum, 6 + whole), r, below - whole, minus, 0x800000u << 7);
    whole = sum >> 30;
    sum = colibri_soft_step(colibri_soft_round(sum, 6 + whole), r, below - 1 - whole, minus, 0x800000u << 7);
    whole = sum >> 30;
    return colibri_soft_round(sum, 6 + whole) + (125 + whole + ((n ^ x_minus) - x_minus)) * 0x800000;
}

#endif
