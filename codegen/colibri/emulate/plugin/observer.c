/* observer.c: a QEMU plugin that counts instructions and checks memory accesses.
 *
 * Arguments (numbers in hexadecimal, ranges half open, those marked * may be repeated):
 *     out=FILE            where the results go (required)
 *     within=LOW-HIGH   * instructions that marks count and that the check looks at; default all
 *     mark=ADDRESS      * note the running count each time this instruction is reached
 *     snap=ADDRESS      * the same, and a copy of all counters; the start of a function
 *     check=1             look at every load and store
 *     align=BYTES         alignment that a wider access must have (default 4)
 *     ro=LOW-HIGH       * memory that may be read
 *     rw=LOW-HIGH       * memory that may be read and written
 *     stack=LOW-HIGH      the lowest address written in here is noted
 *     watch=LOW-HIGH    * the lowest and highest addresses and the pages touched in here are noted; not overlapping
 *     count=LOW-HIGH    * loads and stores in here have counters of their own; ascending, not overlapping
 *
 * The results are a mapped file: QEMU's inline counters lie in it. So they are complete whenever one looks and
 * however QEMU ends. results.py reads them; both sides know the same `struct header` and records. One guest
 * CPU is assumed: two would lose counts.
 */
#include "qemu_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

QEMU_EXPORT int qemu_plugin_version = QEMU_API_VERSION;

#define FORMAT_MAGIC   0x52455652455342ull /* "BSERVER", little-endian */
#define FORMAT_VERSION 3
#define PAGE_BITS      12
#define CAPACITY       ((uint64_t)1 << 28) /* of the file, which is sparse */

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
};

struct record {
    uint32_t kind, n_words;
    uint64_t words[];
};

struct range {
    uint64_t low, high;
    bool     writable;
};

struct ranges {
    size_t        n;
    struct range *items;
};

/* Records of one kind, in their order. */
struct records {
    size_t          n, room;
    struct record **items;
};

/* A marked instruction of a translated block. */
struct site {
    uint64_t       pc;
    uint64_t       ahead; /* counted when the block began, but not executed yet: from this instruction on */
    struct record *block;
};

static struct header *header;
static struct ranges  within, marks, snaps, memory, counted_ranges, watched_ranges;
static struct range   stack;
static struct records blocks, range_records, watch_records;
static bool           check;
static uint64_t       alignment = 4;


/* ---- records -------------------------------------------------------------------------------------------- */

static struct record *new_record(enum record_kind kind, size_t n_words)
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

static void keep(struct records *records, struct record *record)
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


/* ---- while the guest runs ------------------------------------------------------------------------------- */

static bool contains(const struct range *range, uint64_t low, uint64_t high)
{
    return low >= range->low && high <= range->high;
}

static void note(struct finding *finding, uint64_t pc, uint64_t address, uint64_t size, bool is_store)
{
    if (finding->count++ == 0) {
        finding->pc       = pc;
        finding->address  = address;
        finding->size     = size;
        finding->is_store = is_store;
    }
}

static bool allowed(uint64_t address, uint64_t end, bool is_store)
{
    for (size_t i = 0; i < memory.n; i++) {
        if (contains(&memory.items[i], address, end) && (memory.items[i].writable || !is_store)) {
            return true;
        }
    }
    return memory.n == 0;
}

static void add_access(struct traffic *traffic, uint64_t size, bool is_store)
{
    if (is_store) {
        traffic->stores++;
        traffic->store_bytes += size;
    } else {
        traffic->loads++;
        traffic->load_bytes += size;
    }
}

static void count_in_range(uint64_t address, uint64_t size, bool is_store)
{
    size_t low = 0, high = range_records.n;

    while (low < high) { /* the first range that ends behind the address */
        const size_t middle = (low + high) / 2;

        if (range_records.items[middle]->words[1] <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < range_records.n && range_records.items[low]->words[0] <= address) {
        add_access((struct traffic *)&range_records.items[low]->words[2], size, is_store);
    }
}

/* Note an access in the watched range that it lies in. */
static void touch(uint64_t address, uint64_t end)
{
    for (size_t i = 0; i < watch_records.n; i++) {
        uint64_t *words = watch_records.items[i]->words;

        if (address < words[0] || end > words[1]) {
            continue;
        }
        if (address < words[2]) {
            words[2] = address;
        }
        if (end > words[3]) {
            words[3] = end;
        }
        const uint64_t first = words[0] >> PAGE_BITS;

        for (uint64_t page = (address >> PAGE_BITS) - first; page <= ((end - 1) >> PAGE_BITS) - first; page++) {
            words[4 + page / 64] |= (uint64_t)1 << (page % 64);
        }
        return;
    }
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const uint64_t pc       = (uintptr_t)data;
    const uint64_t size     = (uint64_t)1 << qemu_plugin_mem_size_shift(info);
    const uint64_t end      = address + size;
    const bool     is_store = qemu_plugin_mem_is_store(info);

    (void)cpu;
    add_access(&header->traffic, size, is_store);
    count_in_range(address, size, is_store);
    if (is_store && contains(&stack, address, end) && address < header->lowest_stack_store) {
        header->lowest_stack_store = address;
    }
    if ((address & ((size < alignment ? size : alignment) - 1)) != 0) {
        note(&header->unaligned, pc, address, size, is_store);
    }
    if (!allowed(address, end, is_store)) {
        note(&header->outside, pc, address, size, is_store);
    }
    touch(address, end);
}

static void on_mark(unsigned int cpu, void *data)
{
    const struct site *site   = data;
    struct record     *record = new_record(RECORD_MARK, 2);

    (void)cpu;
    if (record != NULL) {
        record->words[0] = site->pc;
        record->words[1] = header->counted - site->ahead;
    }
}

/* Address, instructions counted, all traffic, unaligned and outside accesses, the traffic of each range, and the
 * executions of each block that is translated so far. The block at hand counts as not yet begun. */
static void take_snapshot(unsigned int cpu, void *data)
{
    const struct site *site    = data;
    const size_t       n_words = 2 + 4 + 2 + 4 * range_records.n + blocks.n;
    struct record     *record  = new_record(RECORD_SNAPSHOT, n_words);

    (void)cpu;
    if (record == NULL) {
        return;
    }
    uint64_t *word = record->words;

    *word++ = site->pc;
    *word++ = header->counted - site->ahead;
    memcpy(word, &header->traffic, sizeof header->traffic);
    word += 4;
    *word++ = header->unaligned.count;
    *word++ = header->outside.count;
    for (size_t i = 0; i < range_records.n; i++, word += 4) {
        memcpy(word, &range_records.items[i]->words[2], sizeof(struct traffic));
    }
    for (size_t i = 0; i < blocks.n; i++) {
        *word++ = blocks.items[i]->words[0] - (blocks.items[i] == site->block);
    }
}

static bool any_contains(const struct ranges *ranges, uint64_t address)
{
    for (size_t i = 0; i < ranges->n; i++) {
        if (contains(&ranges->items[i], address, address + 1)) {
            return true;
        }
    }
    return false;
}

static void watch(struct qemu_plugin_insn *insn, qemu_plugin_insn_exec_cb callback, struct site site)
{
    struct site *kept = malloc(sizeof *kept); /* as long as QEMU runs */

    if (kept == NULL) {
        header->dropped++;
        return;
    }
    *kept = site;
    qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, kept);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    const size_t   n      = qemu_plugin_tb_n_insns(block);
    struct record *record = new_record(RECORD_BLOCK, n + 1);
    uint64_t       ahead  = 0;

    (void)id;
    for (size_t i = n; i-- > 0;) {
        struct qemu_plugin_insn *insn     = qemu_plugin_tb_get_insn(block, i);
        const uint64_t           pc       = qemu_plugin_insn_vaddr(insn);
        const bool               selected = within.n == 0 || any_contains(&within, pc);

        ahead += selected;
        if (record != NULL) {
            record->words[i + 1] = pc;
        }
        if (any_contains(&marks, pc)) {
            watch(insn, on_mark, (struct site){pc, ahead, record});
        }
        if (i == 0 && any_contains(&snaps, pc)) {
            watch(insn, take_snapshot, (struct site){pc, ahead, record});
        }
        if (selected && check) {
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                             (void *)(uintptr_t)pc);
        }
    }
    if (ahead > 0 && marks.n + snaps.n > 0) {
        qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &header->counted, ahead);
    }
    if (record != NULL) {
        keep(&blocks, record);
        qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &record->words[0], 1);
    }
}


/* ---- installation --------------------------------------------------------------------------------------- */

static bool refuse(const char *what, const char *value)
{
    fprintf(stderr, "colibri plugin: %s: %s\n", what, value);
    return false;
}

static bool parse_range(const char *text, struct range *range)
{
    char *end;

    range->low = strtoull(text, &end, 16);
    if (end == text || *end != '-') {
        return false;
    }
    text        = end + 1;
    range->high = strtoull(text, &end, 16);
    return end != text && *end == '\0' && range->low < range->high;
}

static bool append(struct ranges *ranges, struct range range)
{
    struct range *items = realloc(ranges->items, (ranges->n + 1) * sizeof *items);

    if (items == NULL) {
        return false;
    }
    ranges->items             = items;
    ranges->items[ranges->n++] = range;
    return true;
}

static bool parse_argument(const char *name, const char *value, const char **out)
{
    struct range range = {0, 0, strcmp(name, "rw") == 0};

    if (strcmp(name, "out") == 0) {
        *out = value;
        return true;
    }
    if (strcmp(name, "check") == 0) {
        check = strcmp(value, "1") == 0;
        return true;
    }
    if (strcmp(name, "align") == 0) {
        alignment = strtoull(value, NULL, 16);
        return (alignment != 0 && (alignment & (alignment - 1)) == 0) || refuse("no power of two", value);
    }
    if (strcmp(name, "mark") == 0 || strcmp(name, "snap") == 0) {
        range.low  = strtoull(value, NULL, 16);
        range.high = range.low + 1;
        return append(strcmp(name, "mark") == 0 ? &marks : &snaps, range);
    }
    if (!parse_range(value, &range)) {
        return refuse("no range of addresses", value);
    }
    if (strcmp(name, "within") == 0) {
        return append(&within, range);
    }
    if (strcmp(name, "count") == 0) {
        if (counted_ranges.n > 0 && range.low < counted_ranges.items[counted_ranges.n - 1].high) {
            return refuse("not ascending", value);
        }
        return append(&counted_ranges, range);
    }
    if (strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0) {
        return append(&memory, range);
    }
    if (strcmp(name, "stack") == 0) {
        stack = range;
        return true;
    }
    if (strcmp(name, "watch") == 0) {
        return append(&watched_ranges, range);
    }
    return refuse("unknown argument", name);
}

static bool open_results(const char *path)
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
    for (size_t i = 0; i < counted_ranges.n; i++) {
        struct record *record = new_record(RECORD_RANGE, 6); /* the file is new and has room */

        record->words[0] = counted_ranges.items[i].low;
        record->words[1] = counted_ranges.items[i].high;
        keep(&range_records, record);
    }
    for (size_t i = 0; i < watched_ranges.n; i++) {
        const struct range range  = watched_ranges.items[i];
        const uint64_t     pages  = ((range.high - 1) >> PAGE_BITS) - (range.low >> PAGE_BITS) + 1;
        struct record     *record = new_record(RECORD_WATCH, 4 + (size_t)((pages + 63) / 64));

        if (record == NULL) {
            return refuse("too large to be watched", path);
        }
        record->words[0] = range.low;
        record->words[1] = range.high;
        record->words[2] = UINT64_MAX;
        keep(&watch_records, record);
    }
    return range_records.n == counted_ranges.n && watch_records.n == watched_ranges.n;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *out = NULL;

    if (info->version.min > QEMU_API_VERSION || info->version.cur < QEMU_API_VERSION) {
        fprintf(stderr, "colibri plugin: speaks version %d of QEMU's plugin interface, this QEMU %d to %d\n",
                QEMU_API_VERSION, info->version.min, info->version.cur);
        return -1;
    }
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        char *name   = strdup(argv[i]);

        if (equals == NULL || name == NULL) {
            refuse("no value", argv[i]);
            return -1;
        }
        name[equals - argv[i]] = '\0';

        char *value = strdup(equals + 1); /* QEMU frees its own */

        if (value == NULL || !parse_argument(name, value, &out)) {
            return -1;
        }
    }
    if (out == NULL || !open_results(out)) {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
