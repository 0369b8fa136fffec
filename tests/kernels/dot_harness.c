/* dot_harness.c: runs one dot kernel on tiles from the standard input.
 *
 * Compile with KERNEL_HEADER (the header), KERNEL (the function), ROWS (of a tile), SUM (type of a
 * sum), and GROUPED where the kernel takes group scales, or PLANES where it takes zero points, bits and group size too. Every array is an allocation of its own that ends with
 * its last element, so that a sanitizer sees a read beyond it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include KERNEL_HEADER

typedef struct piece {
    uint8_t *block;
    uint8_t *data;
} piece;

/* bytes from the standard input, offset bytes behind an address that is a multiple of 16. */
static piece read_piece(size_t bytes, size_t offset)
{
    piece p = {.block = malloc(offset + bytes)};
    if (p.block == NULL || (uintptr_t)p.block % 16 != 0) {
        exit(2);
    }
    p.data = p.block + offset;
    if (fread(p.data, 1, bytes, stdin) != bytes) {
        exit(3);
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
        exit(4);
    }
}
#endif

int main(void)
{
    struct {
        int32_t k, tiles, weight_bytes, scale_bytes, zero_bytes, value_bytes, bits, group, weight_offset, value_offset;
    } head;
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        const piece values = read_piece((size_t)head.value_bytes, (size_t)head.value_offset);
        for (int32_t tile = 0; tile < head.tiles; tile++) {
            const piece weights = read_piece((size_t)head.weight_bytes, (size_t)head.weight_offset);
            const piece scales = read_piece((size_t)head.scale_bytes, 0);
            const piece zeros = read_piece((size_t)head.zero_bytes, 0);
            SUM sum[ROWS];
#if defined PLANES
            run_planes(sum, weights.data, scales.data, head.zero_bytes == 0 ? NULL : zeros.data, values.data, head.k,
                       head.bits, head.group);
#elif defined GROUPED
            KERNEL(sum, (const void *)weights.data, scales.data, (const void *)values.data, head.k);
#else
            KERNEL(sum, (const void *)weights.data, (const void *)values.data, head.k);
#endif
            fwrite(sum, sizeof sum, 1, stdout);
            free(weights.block);
            free(scales.block);
            free(zeros.block);
        }
        free(values.block);
    }
    return 0;
}
