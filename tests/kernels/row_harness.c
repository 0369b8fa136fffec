/* row_harness.c: kernels of rows of a folder against the portable ones, bit by bit; leaves with the line of the first
 * difference, or with 0.
 *
 * Rows are random, of every width and place, with zeros, denormals, infinities, NaN and magnitudes far apart.
 */
#include <stddef.h>
#include <stdint.h>
#include "kernels/portable/float32.h"
#include "port.h"
#include "row_harness.h"


enum { WIDEST = 136, POSITIONS = 40, KV_HEADS = 2, TURNS = 300 };

static uint32_t seed = 1;
static _Alignas(8) float x[WIDEST], w[WIDEST], y[2][WIDEST];
static _Alignas(8) int8_t keys[POSITIONS * KV_HEADS * WIDEST + 8], values[POSITIONS * KV_HEADS * WIDEST + 8];
static _Alignas(8) int8_t bytes[2][WIDEST + 16];
static _Alignas(8) int16_t shorts[2][WIDEST + 16];
static uint16_t key_scales[POSITIONS * KV_HEADS], value_scales[POSITIONS * KV_HEADS];
static int32_t sums[2][POSITIONS];

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static float number(void)
{
    const float sign = draw(2) ? 1.0f : -1.0f;
    return sign * (float)draw(1 << 20) * 0x1p-18f;
}

/* kind 0: plain; 1: magnitudes far apart; 2: quiet; 3: infinities and NaN too. */
static void fill(float *to, int count, uint32_t kind)
{
    static const uint32_t special[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x80000000, 1, 0x7F7FFFFF};
    for (int i = 0; i < count; i++) {
        const uint32_t power = kind == 1 ? 64 + draw(126) : 26 - draw(4);
        const uint32_t scale = (kind == 0 ? 127 : power) << 23;
        to[i] = kind == 3 ? number() : number() * colibri_from_bits((int32_t)scale);
        if (kind == 3 && draw(8) == 0) {
            to[i] = colibri_from_bits((int32_t)special[draw(7)]);
        }
    }
}

/* One NaN is as good as another. */
static int differ(const float *a, const float *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (colibri_bits(colibri_canonical(a[i])) != colibri_bits(colibri_canonical(b[i]))) {
            return 1;
        }
    }
    return 0;
}

static int unlike(const void *a, const void *b, size_t size)
{
    const uint8_t *const one = a;
    const uint8_t *const other = b;
    for (size_t i = 0; i < size; i++) {
        if (one[i] != other[i]) {
            return 1;
        }
    }
    return 0;
}

static int rows_to_integers(int width, int at)
{
    const float scale8[2] = {portable_quantise8(bytes[0] + at, x, width, 127.0f),
                             own_quantise8(bytes[1] + at, x, width, 127.0f)};
    const float largest[2] = {portable_largest(x, width), own_largest(x, width)};
    if (unlike(bytes[0], bytes[1], sizeof bytes[0]) || differ(scale8, scale8 + 1, 1) ||
        differ(largest, largest + 1, 1)) {
        return __LINE__;
    }
    const float qmax = draw(2) ? 127.0f : 32767.0f;
    const int stride = (width + 7) & ~7;
    const float scale16[2] = {portable_quantise16(shorts[0], x, width, stride, qmax),
                              own_quantise16(shorts[1], x, width, stride, qmax)};
    if (unlike(shorts[0], shorts[1], sizeof shorts[0]) || differ(scale16, scale16 + 1, 1)) {
        return __LINE__;
    }
    const uint16_t stored[2] = {portable_store(bytes[0] + at, x, (uint32_t)width),
                                own_store(bytes[1] + at, x, (uint32_t)width)};
    return unlike(bytes[0], bytes[1], sizeof bytes[0]) || stored[0] != stored[1] ? __LINE__ : 0;
}

static int rows_of_floats(int width)
{
    fill(w, width, 0);
    portable_norm(y[0], x, w, width);
    own_norm(y[1], x, w, width);
    if (differ(y[0], y[1], width)) {
        return __LINE__;
    }
    const int count = 1 + (int)draw(4);
    const float *const bias = draw(2) ? w : NULL;
    for (int i = 0; i < 4; i++) {
        sums[0][i] = sums[1][i] = (int32_t)(draw(0xFFFFFFFF) << draw(2)) >> draw(31);
        key_scales[i] = (uint16_t)(draw(0x7F00));
    }
    portable_grouped(y[0], sums[0], key_scales, bias, x[0], count);
    own_grouped(y[1], sums[0], key_scales, bias, x[0], count);
    return differ(y[0], y[1], count) ? __LINE__ : 0;
}

/* Gates near the ends of what e^x takes, too. */
static int rows_of_experts(int width)
{
    static const float ends[] = {87.0f, 88.0f, -87.0f, -88.0f, 88.5f, -104.0f, 0x1p-30f, -16.6f, 0.0f};
    fill(w, width, draw(4));
    for (int i = 0; i < width; i++) {
        w[i] = draw(3) ? w[i] * 8.0f : ends[draw(9)] + number() * (draw(2) ? 0x1p-18f : 0.25f);
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < width; i++) {
            y[side][i] = x[i];
        }
    }
    portable_silu_times(y[0], w, (uint32_t)width);
    own_silu_times(y[1], w, (uint32_t)width);
    if (differ(y[0], y[1], width)) {
        return __LINE__;
    }
    portable_add(y[0], x, width);
    own_add(y[1], x, width);
    if (differ(y[0], y[1], width)) {
        return __LINE__;
    }
    const int first = (int)draw(2);
    const float weight = number();
    portable_combine(y[0], w, weight, first, width);
    own_combine(y[1], w, weight, first, width);
    if (differ(y[0], y[1], width)) {
        return __LINE__;
    }
    const uint32_t heads = 1 + draw(3);
    const uint32_t head_dim = (uint32_t)width / heads / 2 * 2;
    if (4 * head_dim > WIDEST) {
        return 0;
    }
    fill(w, WIDEST, 0);
    portable_rope(y[0], w, w + 2 * head_dim, heads, head_dim);
    own_rope(y[1], w, w + 2 * head_dim, heads, head_dim);
    return differ(y[0], y[1], width) ? __LINE__ : 0;
}

static int attention(uint32_t width, uint32_t at)
{
    const uint32_t count = 1 + draw(POSITIONS);
    const uint32_t spread = draw(3) * 20 + 1;
    for (uint32_t i = 0; i < sizeof keys; i++) {
        keys[i] = (int8_t)(draw(4) == 0 ? (draw(2) ? 127 : -127) : (int)draw(255) - 127);
        values[i] = (int8_t)((int)draw(255) - 127);
    }
    for (uint32_t i = 0; i < POSITIONS * KV_HEADS; i++) {
        key_scales[i] = (uint16_t)(0x3C00 + draw(128) - 128 * draw(spread));
        value_scales[i] = (uint16_t)(draw(9) == 0 ? 0 : 0x3C00 + draw(128) - 128 * draw(spread));
    }
    const uint32_t stride = KV_HEADS * width;
    portable_quantise8(bytes[0], x, (int)width, 127.0f);
    portable_dots(sums[0], bytes[0], keys + at, stride, count, width);
    own_dots(sums[1], bytes[0], keys + at, stride, count, width);
    if (unlike(sums[0], sums[1], sizeof sums[0])) {
        return __LINE__;
    }
    portable_attend(y[0], x, keys + at, key_scales, values + at, value_scales, sums[0], bytes[0], count, KV_HEADS, width);
    own_attend(y[1], x, keys + at, key_scales, values + at, value_scales, sums[1], bytes[1], count, KV_HEADS, width);
    for (int i = 0; i < POSITIONS; i++) {
        sums[0][i] = sums[1][i]; /* weights may stand in another order */
    }
    for (int i = 0; i < WIDEST; i++) {
        bytes[0][i] = bytes[1][i];
    }
    return differ(y[0], y[1], (int)width) ? __LINE__ : 0;
}

/* Some positions of a whole op, whose states are a ring or chunks. */
static int attention_op(uint32_t width)
{
    static int8_t states[2][2][POSITIONS * KV_HEADS * WIDEST];
    static uint16_t scales[2][2][POSITIONS * KV_HEADS];
    const uint32_t heads = KV_HEADS * (1 + draw(3));
    const uint32_t head_dim = 1 + draw(width / heads + 1);
    const uint32_t capacity = 1 + draw(POSITIONS);
    const int chunked = (int)draw(2);
    const float *const sinks = draw(2) ? x + 1 : NULL;
    if (heads * head_dim > WIDEST) {
        return 0;
    }
    for (uint32_t position = 0; position < capacity + 5; position += 1 + draw(2)) {
        fill(w, WIDEST, draw(4));
        portable_attention(y[0], x, w, w + 1, states[0][0], scales[0][0], states[0][1], scales[0][1], sums[0], bytes[0],
                           sinks, position, heads, head_dim, capacity, chunked);
        own_attention(y[1], x, w, w + 1, states[1][0], scales[1][0], states[1][1], scales[1][1], sums[1], bytes[1],
                      sinks, position, heads, head_dim, capacity, chunked);
        if (differ(y[0], y[1], (int)(heads * head_dim)) || unlike(states[0], states[1], sizeof states[0]) ||
            unlike(scales[0], scales[1], sizeof scales[0])) {
            return __LINE__;
        }
    }
    for (int i = 0; i < POSITIONS; i++) {
        sums[0][i] = sums[1][i];
    }
    for (int i = 0; i < WIDEST; i++) {
        bytes[0][i] = bytes[1][i];
    }
    return 0;
}

int main(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        const int width = draw(2) ? 1 + (int)draw(40) : 4 * (1 + (int)draw(WIDEST / 4));
        const int at = (int)draw(5);
        fill(x, width, draw(4));
        int line = rows_to_integers(width, at);
        line = line ? line : rows_of_floats(width);
        line = line ? line : rows_of_experts(width);
        line = line ? line : attention((uint32_t)width, (uint32_t)at);
        line = line || turn % 8 ? line : attention_op((uint32_t)width);
        if (line != 0) {
            port_exit(line);
        }
    }
    port_exit(0);
}
