/* dot_harness.c: runs one dot kernel on tiles from the standard input.
 *
 * Compile with KERNEL_HEADER (the header), KERNEL (the function), ROWS (of a tile), SUM (type of a sum), and GROUPED where the kernel takes group scales. Every array is an allocation of its own that ends with
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

int main(void)
{
    struct {
        int32_t k, tiles, weight_bytes, scale_bytes, value_bytes, weight_offset, value_offset;
    } head;
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        const piece values = read_piece((size_t)head.value_bytes, (size_t)head.value_offset);
        for (int32_t tile = 0; tile < head.tiles; tile++) {
            const piece weights = read_piece((size_t)head.weight_bytes, (size_t)head.weight_offset);
            const piece scales = read_piece((size_t)head.scale_bytes, 0);
            SUM sum[ROWS];
#ifdef GROUPED
            KERNEL(sum, (const void *)weights.data, scales.data, (const void *)values.data, head.k);
#else
            KERNEL(sum, (const void *)weights.data, (const void *)values.data, head.k);
#endif
            fwrite(sum, sizeof sum, 1, stdout);
            free(weights.block);
            free(scales.block);
        }
        free(values.block);
    }
    return 0;
}
