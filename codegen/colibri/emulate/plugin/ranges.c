/* ranges.c: lists of ranges, which only grow. */
#include "ranges.h"

#include <stdlib.h>

bool append_range(struct ranges *ranges, struct range range)
{
    struct range *items = realloc(ranges->items, (ranges->n + 1) * sizeof *items);

    if (items == NULL) {
        return false;
    }
    ranges->items             = items;
    ranges->items[ranges->n++] = range;
    return true;
}
