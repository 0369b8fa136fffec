/* paged_rows.c: rows from the standard input through quantise.h and rms_norm.h of a kernel folder.
 *
 * Compile with QUANTISE and RMS_NORM, the headers. Every array ends where its pages end, and no page follows: a kernel
 * that reads or writes beyond it dies.
 */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include QUANTISE
#include RMS_NORM

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

static float *read_floats(int count)
{
    float *const values = allocate((size_t)count * sizeof *values);
    if (fread(values, sizeof *values, (size_t)count, stdin) != (size_t)count) {
        exit(3);
    }
    return values;
}

int main(void)
{
    struct {
        int32_t bits, width, stride; /* bits: 8 or 16 to quantise to, 0 for the norm */
        float number;                /* qmax or epsilon */
    } head;
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        const float *const x = read_floats(head.width);
        const size_t bytes = (size_t)head.stride * (head.bits == 0 ? sizeof(float) : (size_t)head.bits / 8);
        void *const y = allocate(bytes);
        float scale = 0.0f;
        if (head.bits == 8) {
            colibri_quantise8(y, &scale, x, head.width, head.stride, head.number);
        } else if (head.bits == 16) {
            colibri_quantise16(y, &scale, x, head.width, head.stride, head.number);
        } else {
            colibri_rms_norm(y, x, read_floats(head.width), head.width, head.number);
        }
        fwrite(&scale, sizeof scale, 1, stdout);
        fwrite(y, 1, bytes, stdout);
    }
    return 0;
}
