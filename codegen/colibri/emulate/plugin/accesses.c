/* accesses.c: counts, findings, and what is touched. */
#include "accesses.h"

#include "calls.h"

#define PAGE_BITS 12

struct ranges  memory, counted_ranges, watched_ranges;
struct range   stack;
uint64_t       access_alignment = 4;
struct records range_records;

static struct records watch_records;

bool open_ranges(void)
{
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
            return false;
        }
        record->words[0] = range.low;
        record->words[1] = range.high;
        record->words[2] = UINT64_MAX;
        keep(&watch_records, record);
    }
    return range_records.n == counted_ranges.n && watch_records.n == watched_ranges.n;
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

static void look_at(qemu_plugin_meminfo_t info, uint64_t address, uint64_t pc, uint64_t alignment)
{
    const uint64_t size     = (uint64_t)1 << qemu_plugin_mem_size_shift(info);
    const uint64_t end      = address + size;
    const bool     is_store = qemu_plugin_mem_is_store(info);

    add_access(&header->traffic, size, is_store);
    count_in_range(address, size, is_store);
    if (is_store && contains(&stack, address, end)) {
        if (address < header->lowest_stack_store) {
            header->lowest_stack_store = address;
        }
        note_store(address);
    }
    if ((address & ((size < alignment ? size : alignment) - 1)) != 0) {
        note(&header->unaligned, pc, address, size, is_store);
    }
    if (!allowed(address, end, is_store)) {
        note(&header->outside, pc, address, size, is_store);
    }
    if (is_watching()) {
        touch(address, end);
    }
}

void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)cpu;
    look_at(info, address, (uintptr_t)data, access_alignment);
}

void on_vector_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)cpu;
    look_at(info, address, (uintptr_t)data, 1);
}
