/* records.h: the file of results, which is mapped: QEMU's inline counters lie in it. So it is complete whenever one looks
 * and however QEMU ends. results.py reads it; both sides know the same header and records.
 */
#ifndef COLIBRI_RECORDS_H
#define COLIBRI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One access that should not have been: the first, and how many. */
struct finding {
    uint64_t count, pc, address, size, is_store;
};

/* Accesses and their bytes. */
struct traffic {
    uint64_t loads, load_bytes, stores, store_bytes;
};

struct header {
    uint64_t       magic, version;
    uint64_t       used;    /* bytes of the file that hold records, header included */
    uint64_t       dropped; /* records that did not fit */
    uint64_t       counted; /* instructions executed in the `within` ranges; only with marks or snapshots */
    struct traffic traffic;
    struct finding unaligned, outside;
    uint64_t       lowest_stack_store; /* UINT64_MAX: none */
};

/* A record is its kind, a number of words, and the words. */
enum record_kind {
    RECORD_BLOCK    = 1, /* executions, then the address of each instruction */
    RECORD_MARK     = 2, /* address, instructions counted before it */
    RECORD_RANGE    = 3, /* low, high, `struct traffic`; one for each `count`, before all others */
    RECORD_SNAPSHOT = 4, /* like a mark, then all counters so far: see take_snapshot() */
    RECORD_WATCH    = 5, /* low, high, lowest touched, end of the highest, then a bit for each page: see touch() */
    RECORD_CALL     = 6, /* start of the function, times that it was called, lowest address written in the stack */
};

struct record {
    uint32_t kind, n_words;
    uint64_t words[];
};

/* Records of one kind, in their order. */
struct records {
    size_t          n, room;
    struct record **items;
};

extern struct header *header;

/* Says why on standard error when it is false. */
bool open_results(const char *path);

/* NULL when the file is full, which is counted. */
struct record *new_record(enum record_kind kind, size_t n_words);

void keep(struct records *records, struct record *record);

#endif
