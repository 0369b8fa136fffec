/* ranges.h: addresses that the host names, half open. */
#ifndef COLIBRI_RANGES_H
#define COLIBRI_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t low, high;
    bool     writable;
};

struct ranges {
    size_t        n;
    struct range *items;
};

/* False when there is no room. */
bool append_range(struct ranges *ranges, struct range range);

/* Whether low to high lies in it. */
static inline bool contains(const struct range *range, uint64_t low, uint64_t high)
{
    return low >= range->low && high <= range->high;
}

static inline bool any_contains(const struct ranges *ranges, uint64_t address)
{
    for (size_t i = 0; i < ranges->n; i++) {
        if (contains(&ranges->items[i], address, address + 1)) {
            return true;
        }
    }
    return false;
}

#endif
