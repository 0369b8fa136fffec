/* observer.c: a QEMU plugin that counts instructions and checks memory accesses.
 *
 * Arguments (numbers in hexadecimal, ranges half open, those marked * may be repeated):
 *     out=FILE            where the results go (required)
 *     within=LOW-HIGH   * instructions that marks count and that the check looks at; default all
 *     mark=ADDRESS      * note the running count each time this instruction is reached
 *     check=1             look at every load and store
 *     align=BYTES         alignment that a wider access must have (default 4)
 *     ro=LOW-HIGH       * memory that may be read
 *     rw=LOW-HIGH       * memory that may be read and written
 *     stack=LOW-HIGH      the lowest address written in here is noted
 *     arena=LOW-HIGH      the lowest and highest addresses touched in here are noted
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
#define FORMAT_VERSION 1
#define CAPACITY       ((uint64_t)1 << 28) /* of the file, which is sparse */

/* One access that should not have been: the first, and how many. */
struct finding {
    uint64_t count, pc, address, size, is_store;
};

struct header {
    uint64_t       magic, version;
    uint64_t       used;    /* bytes of the file that hold records, header included */
    uint64_t       dropped; /* records that did not fit */
    uint64_t       counted; /* instructions executed in the `within` ranges; only with marks */
    uint64_t       loads, load_bytes, stores, store_bytes;
    struct finding unaligned, outside;
    uint64_t       lowest_stack_store; /* UINT64_MAX: none */
    uint64_t       arena_low, arena_high; /* half open; low > high: not touched */
};

/* A record is its kind, a number of words, and the words. */
enum record_kind {
    RECORD_BLOCK = 1, /* executions, then the address of each instruction */
    RECORD_MARK  = 2, /* address, instructions counted before it */
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

static struct header *header;
static struct ranges  within, marks, memory;
static struct range   stack, arena;
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

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const uint64_t pc       = (uintptr_t)data;
    const uint64_t size     = (uint64_t)1 << qemu_plugin_mem_size_shift(info);
    const uint64_t end      = address + size;
    const bool     is_store = qemu_plugin_mem_is_store(info);

    (void)cpu;
    if (is_store) {
        header->stores++;
        header->store_bytes += size;
        if (contains(&stack, address, end) && address < header->lowest_stack_store) {
            header->lowest_stack_store = address;
        }
    } else {
        header->loads++;
        header->load_bytes += size;
    }
    if ((address & ((size < alignment ? size : alignment) - 1)) != 0) {
        note(&header->unaligned, pc, address, size, is_store);
    }
    if (!allowed(address, end, is_store)) {
        note(&header->outside, pc, address, size, is_store);
    }
    if (contains(&arena, address, end)) {
        if (address < header->arena_low) {
            header->arena_low = address;
        }
        if (end > header->arena_high) {
            header->arena_high = end;
        }
    }
}

static void on_mark(unsigned int cpu, void *data)
{
    struct record *record = new_record(RECORD_MARK, 2);

    (void)cpu;
    if (record != NULL) {
        record->words[0] = (uintptr_t)data;
        record->words[1] = header->counted;
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

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    const size_t   n      = qemu_plugin_tb_n_insns(block);
    struct record *record = new_record(RECORD_BLOCK, n + 1);

    (void)id;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn     = qemu_plugin_tb_get_insn(block, i);
        const uint64_t           pc       = qemu_plugin_insn_vaddr(insn);
        const bool               selected = within.n == 0 || any_contains(&within, pc);

        if (record != NULL) {
            record->words[i + 1] = pc;
        }
        if (any_contains(&marks, pc)) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)pc);
        }
        if (selected && marks.n > 0) {
            qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &header->counted, 1);
        }
        if (selected && check) {
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                             (void *)(uintptr_t)pc);
        }
    }
    if (record != NULL) {
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
    if (strcmp(name, "mark") == 0) {
        range.low  = strtoull(value, NULL, 16);
        range.high = range.low + 1;
        return append(&marks, range);
    }
    if (!parse_range(value, &range)) {
        return refuse("no range of addresses", value);
    }
    if (strcmp(name, "within") == 0) {
        return append(&within, range);
    }
    if (strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0) {
        return append(&memory, range);
    }
    if (strcmp(name, "stack") == 0) {
        stack = range;
        return true;
    }
    if (strcmp(name, "arena") == 0) {
        arena = range;
        return true;
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
    header->arena_low          = UINT64_MAX;
    header->magic              = FORMAT_MAGIC;
    return true;
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
