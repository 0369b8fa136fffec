/* paged_attention.c: attention.h and rows_int8.h of a kernel folder against the portable ones, bit by bit; leaves with 1
 * at a difference.
 *
 * Compile with ATTENTION and ROWS_INT8, the headers. Heads of every width from 1 on, rings that turn and chunks; every array ends where its
 * pages end, and no page follows: a kernel that reads or writes beyond it dies.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define colibri_attention_f32 portable_attention_f32
#define colibri_attention_f16 portable_attention_f16
#define colibri_dot_rows_int8 portable_dot_rows_int8
#define colibri_sum_rows_int8 portable_sum_rows_int8
#include "kernels/portable/attention.h"
#include "kernels/portable/rows_int8.h"
#undef colibri_attention_f32
#undef colibri_attention_f16
#undef colibri_dot_rows_int8
#undef colibri_sum_rows_int8
#undef COLIBRI_ATTENTION_H
#undef COLIBRI_ROWS_INT8_H
#include ATTENTION
#include ROWS_INT8

enum { HEADS = 4, CAPACITY = 11, POSITIONS = 26 };

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* Floats of many magnitudes, now and then none, a denormal, infinite or no number. */
static void fill(float *values, uint32_t count, uint32_t odd)
{
    static const uint32_t special[] = {0x80000000, 1, 0x80000100, 0x7F800000, 0xFF800000, 0x7FC00000};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bits = draw(2) << 31 | (120 + draw(12)) << 23 | draw(1 << 23);
        values[i] = colibri_from_bits((int32_t)(odd != 0 && draw(40) == 0 ? special[draw(odd)] : bits));
    }
}

static void *allocate(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    uint8_t *const block = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || mprotect(block + whole, page, PROT_NONE) != 0) {
        exit(2);
    }
    return block + whole - bytes;
}

/* The outputs of all positions. */
static void check(uint32_t kv_heads, uint32_t head_dim, bool chunked, bool has_sinks, uint32_t odd)
{
    const uint32_t width = kv_heads * head_dim;
    const size_t row = HEADS * head_dim * sizeof(float);
    const size_t state = (size_t)CAPACITY * width;
    float *const q = allocate(row);
    float *const k = allocate(width * sizeof(float));
    float *const v = allocate(width * sizeof(float));
    float *const scores = allocate(CAPACITY * sizeof(float));
    float *const sinks = allocate(HEADS * sizeof(float));
    float *out[4];
    void *keys[4];
    void *values[4];
    for (int i = 0; i < 4; i++) {
        out[i] = allocate(row);
        keys[i] = allocate(state * (i < 2 ? sizeof(float) : sizeof(uint16_t)));
        values[i] = allocate(state * (i < 2 ? sizeof(float) : sizeof(uint16_t)));
    }
    fill(sinks, HEADS, 0);
    const float *const sink = has_sinks ? sinks : NULL;
    for (uint32_t at = 0; at < POSITIONS; at++) {
        fill(q, HEADS * head_dim, odd);
        fill(k, width, odd);
        fill(v, width, odd);
        portable_attention_f32(out[0], q, k, v, keys[0], values[0], scores, sink, at, HEADS, kv_heads, head_dim, CAPACITY,
                               chunked, 0.25f);
        colibri_attention_f32(out[1], q, k, v, keys[1], values[1], scores, sink, at, HEADS, kv_heads, head_dim, CAPACITY,
                              chunked, 0.25f);
        portable_attention_f16(out[2], q, k, v, keys[2], values[2], scores, sink, at, HEADS, kv_heads, head_dim, CAPACITY,
                               chunked, 0.25f);
        colibri_attention_f16(out[3], q, k, v, keys[3], values[3], scores, sink, at, HEADS, kv_heads, head_dim, CAPACITY,
                              chunked, 0.25f);
        for (int i = 0; i < 4; i += 2) {
            for (uint32_t d = 0; d < HEADS * head_dim; d++) {
                if (colibri_bits(colibri_canonical(out[i][d])) != colibri_bits(colibri_canonical(out[i + 1][d]))) {
                    exit(1);
                }
            }
        }
    }
}

/* Both products of rows of 8 bits, up to their ends. */
static void check_int8(uint32_t width, uint32_t apart)
{
    const uint32_t stride = width + apart;
    const uint32_t count = 1 + draw(CAPACITY);
    int8_t *const x = allocate(width);
    int8_t *const rows = allocate((count - 1) * stride + width);
    int32_t *const weights = allocate(count * sizeof(int32_t));
    int32_t *const sums[2] = {allocate(count * sizeof(int32_t)), allocate(count * sizeof(int32_t))};
    float *const out[2] = {allocate(width * sizeof(float)), allocate(width * sizeof(float))};
    const uint32_t ends = draw(2);
    for (uint32_t i = 0; i < width; i++) {
        x[i] = (int8_t)(ends ? 127 - 254 * (int)draw(2) : (int)draw(255) - 127);
    }
    for (uint32_t i = 0; i < (count - 1) * stride + width; i++) {
        rows[i] = (int8_t)(ends ? 127 - 254 * (int)draw(2) : (int)draw(255) - 127);
    }
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = (int32_t)(ends ? 32767 : draw(32768));
    }
    portable_dot_rows_int8(sums[0], x, rows, stride, count, width);
    colibri_dot_rows_int8(sums[1], x, rows, stride, count, width);
    portable_sum_rows_int8(out[0], weights, rows, stride, count, width, 0x1.8p-9f);
    colibri_sum_rows_int8(out[1], weights, rows, stride, count, width, 0x1.8p-9f);
    if (memcmp(sums[0], sums[1], count * sizeof(int32_t)) != 0 || memcmp(out[0], out[1], width * sizeof(float)) != 0) {
        exit(1);
    }
}

int main(void)
{
    for (uint32_t width = 1; width <= 100; width++) {
        check_int8(width, 0);
        check_int8(width, width);
    }
    for (uint32_t head_dim = 1; head_dim <= 40; head_dim++) {
        check(HEADS, head_dim, false, false, 0);
        check(HEADS / 2, head_dim, true, false, 0);
        check(1, head_dim, false, true, 3);
        check(HEADS, head_dim, false, false, 6);
    }
    return 0;
}
