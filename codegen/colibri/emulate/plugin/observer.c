/* observer.c: a QEMU plugin that counts instructions and checks memory accesses.
 *
 * Arguments (numbers in hexadecimal, ranges half open, those marked * may be repeated):
 *     out=FILE            where the results go (required)
 *     within=LOW-HIGH   * instructions that marks count and that the check looks at; default all
 *     mark=ADDRESS      * note the running count each time this instruction is reached
 *     snap=ADDRESS      * the same, and a copy of all counters; the start of a function
 *     check=1             look at every load and store
 *     align=BYTES         alignment that a wider access must have (default 4); vectors of AArch64 need none
 *     ro=LOW-HIGH       * memory that may be read
 *     rw=LOW-HIGH       * memory that may be read and written
 *     stack=LOW-HIGH      the lowest address written in here is noted
 *     watch=LOW-HIGH    * the lowest and highest addresses and the pages touched in here are noted; not overlapping
 *     call=START-CALLER * how low a function writes in the stack when it is called by the one that starts at CALLER
 *     code=LOW-HIGH     * of the function of the last `call`
 *     apart=START       * in calls of this function nothing is watched
 *     count=LOW-HIGH    * loads and stores in here have counters of their own; ascending, not overlapping
 *
 * records.h says where the results go. One guest CPU is assumed: two would lose counts.
 */
#include "qemu_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accesses.h"
#include "calls.h"
#include "ranges.h"
#include "records.h"

QEMU_EXPORT int qemu_plugin_version = QEMU_API_VERSION;

/* A marked instruction of a translated block. */
struct site {
    uint64_t       pc;
    uint64_t       ahead; /* counted when the block began, but not executed yet: from this instruction on */
    struct record *block;
};

static struct ranges  within, marks, snaps;
static struct records blocks;
static bool           check, is_aarch64;


/* ---- while the guest runs ------------------------------------------------------------------------------- */

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

/* Whether it is a load or store of AArch64's vector registers: of elements of a width that the access does not show. */
static bool moves_vector(const struct qemu_plugin_insn *insn)
{
    const uint8_t *bytes = qemu_plugin_insn_data(insn);

    return is_aarch64 && qemu_plugin_insn_size(insn) == 4 && (bytes[3] & 0x0E) == 0x0C;
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
        if (i == 0) {
            follow_calls(insn, pc);
        }
        if (selected && check) {
            qemu_plugin_register_vcpu_mem_cb(insn, moves_vector(insn) ? on_vector_access : on_access,
                                             QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)pc);
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
        access_alignment = strtoull(value, NULL, 16);
        return (access_alignment != 0 && (access_alignment & (access_alignment - 1)) == 0) || refuse("no power of two", value);
    }
    if (strcmp(name, "mark") == 0 || strcmp(name, "snap") == 0) {
        range.low  = strtoull(value, NULL, 16);
        range.high = range.low + 1;
        return append_range(strcmp(name, "mark") == 0 ? &marks : &snaps, range);
    }
    if (strcmp(name, "apart") == 0) {
        set_apart(strtoull(value, NULL, 16));
        return true;
    }
    if (strcmp(name, "call") == 0) {
        char *end;

        range.low  = strtoull(value, &end, 16);
        range.high = *end == '-' ? strtoull(end + 1, NULL, 16) : 0;
        return add_function(range.low, range.high);
    }
    if (!parse_range(value, &range)) {
        return refuse("no range of addresses", value);
    }
    if (strcmp(name, "within") == 0) {
        return append_range(&within, range);
    }
    if (strcmp(name, "code") == 0) {
        return add_code(range) || refuse("code of no function", value);
    }
    if (strcmp(name, "count") == 0) {
        if (counted_ranges.n > 0 && range.low < counted_ranges.items[counted_ranges.n - 1].high) {
            return refuse("not ascending", value);
        }
        return append_range(&counted_ranges, range);
    }
    if (strcmp(name, "ro") == 0 || strcmp(name, "rw") == 0) {
        return append_range(&memory, range);
    }
    if (strcmp(name, "stack") == 0) {
        stack = range;
        return true;
    }
    if (strcmp(name, "watch") == 0) {
        return append_range(&watched_ranges, range);
    }
    return refuse("unknown argument", name);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *out = NULL;

    if (info->version.min > QEMU_API_VERSION || info->version.cur < QEMU_API_VERSION) {
        fprintf(stderr, "colibri plugin: speaks version %d of QEMU's plugin interface, this QEMU %d to %d\n",
                QEMU_API_VERSION, info->version.min, info->version.cur);
        return -1;
    }
    is_aarch64 = strcmp(info->target_name, "aarch64") == 0;
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
    if (!open_ranges() || !open_calls()) {
        refuse("too large to be watched", out);
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
