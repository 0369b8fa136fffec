/* dot_harness.c: runs one dot kernel on tiles from the standard input, or on bare metal from the port's request.
 *
 * Compile with KERNEL_HEADER (the header), KERNEL (the function), ROWS (of a tile), SUM (type of a
 * sum), and GROUPED where the kernel takes group scales, SUMS where it takes sums of activations too, ANY_GROUP where
 * it takes the group's size last, or PLANES where it takes zero points, bits and group size. With INPUTS and VALUE (type
 * of an element) the function is the one for so many inputs at once, with FACTS and GATHER one that takes what the
 * function GATHER tells of them, FACTS(k) values, and no sums, with FETCHES one that is told which call it is. Every
 * array is an allocation of its own that ends with its last element, so that a sanitizer sees a read beyond it; on bare
 * metal, with HEAP bytes for all of them, they stand one behind the other.
 */
#include <stdint.h>
#include KERNEL_HEADER

#ifdef HEAP

#include "ports/port.h"

static _Alignas(16) uint8_t heap[HEAP];
static size_t taken;

static void *allocate(size_t bytes)
{
    uint8_t *block = heap + taken;
    taken += (bytes + 15) / 16 * 16;
    return taken <= HEAP ? block : NULL;
}

/* Blocks go in the opposite order of their coming. */
static void release(void *block)
{
    taken = (size_t)((uint8_t *)block - heap);
}

static size_t read_bytes(void *bytes, size_t n)
{
    return port_read(bytes, n);
}

static void write_bytes(const void *bytes, size_t n)
{
    port_write(bytes, n);
}

static _Noreturn void leave(int code)
{
    port_exit(code);
}

#else

#include <stdio.h>
#include <stdlib.h>

static void *allocate(size_t bytes)
{
    return malloc(bytes);
}

static void release(void *block)
{
    free(block);
}

static size_t read_bytes(void *bytes, size_t n)
{
    return fread(bytes, 1, n, stdin);
}

static void write_bytes(const void *bytes, size_t n)
{
    fwrite(bytes, 1, n, stdout);
}

static _Noreturn void leave(int code)
{
    exit(code);
}

#endif

typedef struct piece {
    uint8_t *block;
    uint8_t *data;
} piece;

/* bytes from the standard input, offset bytes behind an address that is a multiple of 16. */
static piece read_piece(size_t bytes, size_t offset)
{
    piece p = {.block = allocate(offset + bytes)};
    if (p.block == NULL || (uintptr_t)p.block % 16 != 0) {
        leave(2);
    }
    p.data = p.block + offset;
    if (read_bytes(p.data, bytes) != bytes) {
        leave(3);
    }
    return p;
}

#ifdef PLANES
#define WITH(bits, group)                                                                                            \
    case bits * 1000 + group:                                                                                        \
        if (zeros == NULL) {                                                                                         \
            KERNEL(sum, w, factors, NULL, x, k, bits, group);                                                        \
        } else {                                                                                                     \
            KERNEL(sum, w, factors, zeros, x, k, bits, group);                                                       \
        }                                                                                                            \
        break;
#define WITH_GROUPS(bits) WITH(bits, 32) WITH(bits, 64) WITH(bits, 128)

static void run_planes(SUM *sum, const void *w, const uint8_t *factors, const uint8_t *zeros, const void *x, int k,
                       int32_t bits, int32_t group)
{
    switch (bits * 1000 + group) {
        WITH_GROUPS(2)
        WITH_GROUPS(3)
        WITH_GROUPS(4)
        WITH_GROUPS(5)
        WITH_GROUPS(6)
    default:
        leave(4);
    }
}
#endif

#ifndef INPUTS
#define INPUTS 1
#endif

#ifdef FETCHES
#define SHARE(tile) , (uint32_t)(tile) % 3, 3
#else
#define SHARE(tile)
#endif

int main(void)
{
    struct {
        int32_t k, tiles, weight_bytes, scale_bytes, zero_bytes, value_bytes, bits, group, weight_offset, value_offset;
    } head;
    while (read_bytes(&head, sizeof head) == sizeof head) {
        const piece values = read_piece((size_t)head.value_bytes, (size_t)head.value_offset);
#ifdef VALUE
        const VALUE *inputs[INPUTS];
        for (int i = 0; i < INPUTS; i++) {
            inputs[i] = (const VALUE *)(const void *)values.data + i * head.k;
        }
        const VALUE *const *const x = inputs;
#else
        const void *const x = values.data;
#endif
        for (int32_t tile = 0; tile < head.tiles; tile++) {
            const piece weights = read_piece((size_t)head.weight_bytes, (size_t)head.weight_offset);
            const piece scales = read_piece((size_t)head.scale_bytes, 0);
            const piece zeros = read_piece((size_t)head.zero_bytes, 0);
            SUM sum[INPUTS * ROWS];
#if defined PLANES
            run_planes(sum, weights.data, scales.data, head.zero_bytes == 0 ? NULL : zeros.data, x, head.k,
                       head.bits, head.group);
#elif defined FACTS
            int32_t *facts = allocate(sizeof(int32_t) * (size_t)FACTS(head.k));
            if (facts == NULL) {
                leave(2);
            }
            GATHER(facts, x, head.k);
#ifdef GROUPED
            KERNEL(sum, (const void *)weights.data, scales.data, x, facts, head.k SHARE(tile));
#else
            KERNEL(sum, (const void *)weights.data, x, facts, head.k SHARE(tile));
#endif
            release(facts);
#elif defined SUMS
            int32_t *sums = allocate(sizeof(int32_t) * (size_t)head.k / 32);
            if (sums == NULL) {
                leave(2);
            }
            colibri_sum_groups(sums, x, head.k);
#ifdef ANY_GROUP
            KERNEL(sum, (const void *)weights.data, scales.data, x, sums, head.k, head.group);
#else
            KERNEL(sum, (const void *)weights.data, scales.data, x, sums, head.k);
#endif
            release(sums);
#elif defined ANY_GROUP
            KERNEL(sum, (const void *)weights.data, scales.data, x, head.k, head.group);
#elif defined GROUPED
            KERNEL(sum, (const void *)weights.data, scales.data, x, head.k);
#else
            KERNEL(sum, (const void *)weights.data, x, head.k);
#endif
            write_bytes(sum, sizeof sum);
            release(zeros.block);
            release(scales.block);
            release(weights.block);
        }
        release(values.block);
    }
    leave(0);
}
