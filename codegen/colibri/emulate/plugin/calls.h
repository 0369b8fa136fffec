/* calls.h: how low a function and all that it calls write in the stack, while a certain function calls it. */
#ifndef COLIBRI_CALLS_H
#define COLIBRI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"
#include "ranges.h"

/* A function that is looked for: false when there is no room. Its code follows, one range after the other. */
bool add_function(uint64_t start, uint64_t caller);
bool add_code(struct range range);

/* In calls of this function nothing is watched. */
void set_apart(uint64_t start);

/* Make the records, once the file is there. */
bool open_calls(void);

/* For the first instruction of each translated block. */
void follow_calls(struct qemu_plugin_insn *insn, uint64_t pc);

/* A store in the stack. */
void note_store(uint64_t address);

/* Whether accesses to watched ranges count. */
bool is_watching(void);

#endif
