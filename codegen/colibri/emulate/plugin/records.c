/* records.c: a file in memory that only grows. */
#include "records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FORMAT_MAGIC   0x52455652455342ull /* "BSERVER", little-endian */
#define FORMAT_VERSION 4
#define CAPACITY       ((uint64_t)1 << 28) /* of the file, which is sparse */

struct header *header;

static bool refuse(const char *what, const char *path)
{
    fprintf(stderr, "colibri plugin: %s: %s\n", what, path);
    return false;
}

bool open_results(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (file < 0 || ftruncate(file, (off_t)CAPACITY) != 0) {
        return refuse("cannot write", path);
    }
    void *mapped = mmap(NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);

    close(file);
    if (mapped == MAP_FAILED) {
        return refuse("cannot map", path);
    }
    header                     = mapped;
    header->version            = FORMAT_VERSION;
    header->used               = sizeof *header;
    header->lowest_stack_store = UINT64_MAX;
    header->magic              = FORMAT_MAGIC;
    return true;
}

struct record *new_record(enum record_kind kind, size_t n_words)
{
    const uint64_t bytes = sizeof(struct record) + 8 * (uint64_t)n_words;

    if (header->used + bytes > CAPACITY) {
        header->dropped++;
        return NULL;
    }
    struct record *record = (struct record *)(void *)((char *)header + header->used);

    record->n_words = (uint32_t)n_words;
    record->kind    = kind;
    header->used += bytes;
    return record;
}

void keep(struct records *records, struct record *record)
{
    if (records->n == records->room) {
        const size_t    room  = records->room == 0 ? 1024 : 2 * records->room;
        struct record **items = realloc(records->items, room * sizeof *items);

        if (items == NULL) {
            header->dropped++;
            return;
        }
        records->items = items;
        records->room  = room;
    }
    records->items[records->n++] = record;
}
