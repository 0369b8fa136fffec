/* accesses.h: what each load and store does. */
#ifndef COLIBRI_ACCESSES_H
#define COLIBRI_ACCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"
#include "ranges.h"
#include "records.h"

/* What the host names before the run. */
extern struct ranges  memory, counted_ranges, watched_ranges;
extern struct range   stack;
extern uint64_t       access_alignment;
extern struct records range_records;

/* Make the records, once the file is there. */
bool open_ranges(void);

/* `data` is the address of the instruction. */
void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

/* The same for a vector, which may have elements of one byte: any address is aligned. */
void on_vector_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

#endif
