/* latency.h: exact percentiles of what was measured. Every sample is kept, in memory of the caller.
 *
 * The p-th percentile is the smallest sample that at least p % of all samples do not exceed (nearest rank), so each
 * figure is a time that was seen. The unit is the caller's: nanoseconds, or cycles.
 */
#ifndef COLIBRI_LATENCY_H
#define COLIBRI_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

struct latency_samples {
    uint64_t *values; /* [most] of the caller; sorted by latency_summary */
    uint32_t most;
    uint32_t count;
};

struct latency {
    uint32_t count;
    uint64_t total;
    uint64_t least;
    uint64_t p50;
    uint64_t p95;
    uint64_t p99;
    uint64_t worst;
};

/* Returns whether there was room. */
static inline bool latency_add(struct latency_samples *samples, uint64_t value)
{
    if (samples->count == samples->most) {
        return false;
    }
    samples->values[samples->count++] = value;
    return true;
}

static inline void latency_sink(uint64_t *values, uint32_t root, uint32_t count)
{
    const uint64_t value = values[root];

    while (root < count / 2) {
        uint32_t child = 2 * root + 1;

        if (child + 1 < count && values[child] < values[child + 1]) {
            child++;
        }
        if (values[child] <= value) {
            break;
        }
        values[root] = values[child];
        root = child;
    }
    values[root] = value;
}

/* Ascending, in place: a heap needs no second array and no recursion. */
static inline void latency_sort(uint64_t *values, uint32_t count)
{
    for (uint32_t root = count / 2; root > 0; root--) {
        latency_sink(values, root - 1, count);
    }
    for (uint32_t end = count; end > 1; end--) {
        const uint64_t largest = values[0];

        values[0] = values[end - 1];
        values[end - 1] = largest;
        latency_sink(values, 0, end - 1);
    }
}

/* Of at least one sample, percent in 1 to 100. No product overflows 32 bits, and nothing divides 64. */
static inline uint64_t latency_percentile(const uint64_t *sorted, uint32_t count, uint32_t percent)
{
    return sorted[count / 100 * percent + (count % 100 * percent + 99) / 100 - 1];
}

/* All zero without samples. */
static inline struct latency latency_summary(struct latency_samples *samples)
{
    struct latency found = {.count = samples->count};

    if (samples->count == 0) {
        return found;
    }
    latency_sort(samples->values, samples->count);
    for (uint32_t i = 0; i < samples->count; i++) {
        found.total += samples->values[i];
    }
    found.least = samples->values[0];
    found.p50 = latency_percentile(samples->values, samples->count, 50);
    found.p95 = latency_percentile(samples->values, samples->count, 95);
    found.p99 = latency_percentile(samples->values, samples->count, 99);
    found.worst = samples->values[samples->count - 1];
    return found;
}

#endif
