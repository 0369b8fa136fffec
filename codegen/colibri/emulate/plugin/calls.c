/* calls.c: which of a few functions runs, from the blocks that begin in one of them.
 *
 * A call begins where the first instruction of a function runs while its caller was the last of these functions that
 * ran, and ends where a block of the caller runs again. Other functions do not matter.
 */
#include "calls.h"

#include <stddef.h>
#include <stdlib.h>

#include "records.h"

enum { CALLED, TIMES, LOWEST, WORDS }; /* of the record */

struct function {
    uint64_t       start, caller;
    struct ranges  code;
    bool           is_running; /* in a call that counts */
    bool           is_apart;
    struct record *record;
};

static struct function *functions;
static size_t           n_functions;
static struct function *last; /* of which a block ran */

bool add_function(uint64_t start, uint64_t caller)
{
    struct function *items = realloc(functions, (n_functions + 1) * sizeof *items);

    if (items == NULL) {
        return false;
    }
    functions                = items;
    functions[n_functions++] = (struct function){.start = start, .caller = caller};
    return true;
}

bool add_code(struct range range)
{
    return n_functions > 0 && append_range(&functions[n_functions - 1].code, range);
}

void set_apart(uint64_t start)
{
    for (size_t i = 0; i < n_functions; i++) {
        functions[i].is_apart = functions[i].is_apart || functions[i].start == start;
    }
}

bool open_calls(void)
{
    for (size_t i = 0; i < n_functions; i++) {
        struct record *record = new_record(RECORD_CALL, WORDS);

        if (record == NULL) {
            return false;
        }
        record->words[CALLED] = functions[i].start;
        record->words[LOWEST] = UINT64_MAX;
        functions[i].record   = record;
    }
    return true;
}

static void on_entry(unsigned int cpu, void *data)
{
    struct function *function = data;

    (void)cpu;
    if (last != NULL && last->start == function->caller) {
        function->is_running = true;
        function->record->words[TIMES]++;
    }
    last = function;
}

static void on_block(unsigned int cpu, void *data)
{
    struct function *function = data;

    (void)cpu;
    for (size_t i = 0; i < n_functions; i++) {
        if (functions[i].caller == function->start) {
            functions[i].is_running = false;
        }
    }
    last = function;
}

void follow_calls(struct qemu_plugin_insn *insn, uint64_t pc)
{
    for (size_t i = 0; i < n_functions; i++) {
        if (pc == functions[i].start) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry, QEMU_PLUGIN_CB_NO_REGS, &functions[i]);
        } else if (any_contains(&functions[i].code, pc)) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_block, QEMU_PLUGIN_CB_NO_REGS, &functions[i]);
        }
    }
}

void note_store(uint64_t address)
{
    for (size_t i = 0; i < n_functions; i++) {
        if (functions[i].is_running && address < functions[i].record->words[LOWEST]) {
            functions[i].record->words[LOWEST] = address;
        }
    }
}

bool is_watching(void)
{
    for (size_t i = 0; i < n_functions; i++) {
        if (functions[i].is_apart && functions[i].is_running) {
            return false;
        }
    }
    return true;
}
