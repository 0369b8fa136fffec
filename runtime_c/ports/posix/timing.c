/* timing.c: only the bench program uses it; the linker leaves it out of others. */
#define _POSIX_C_SOURCE 200809L

#include "timing.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_CALLS = 1000 };

/* what one load takes: wider ones, made of several, gcc would keep in memory. */
#if defined(__AVX__)
#define LANE_BYTES 32
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define LANE_BYTES 16
#else
#define LANE_BYTES 8
#endif
typedef uint64_t lane __attribute__((vector_size(LANE_BYTES), aligned(8), may_alias));
enum { PLACES = 4, STRIDE = PLACES * LANE_BYTES };

uint64_t timing_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t timing_clock_cost(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < CLOCK_CALLS; i++) {
        const uint64_t begin = timing_now();
        const uint64_t cost = timing_now() - begin;

        least = cost < least ? cost : least;
    }
    return least;
}

bool timing_emulated(void)
{
    static const char name[] = "/qemu-";
    static char path[4096];
    const ssize_t length = readlink("/proc/thread-self/exe", path, sizeof path - 1); /* QEMU answers for /proc/self */
    const char *last = path;

    path[length < 0 ? 0 : length] = '\0';
    for (const char *at = path; *at != '\0'; at++) {
        last = *at == '/' ? at : last;
    }
    return strncmp(last, name, sizeof name - 1) == 0;
}

uint64_t timing_read(const uint8_t *at, size_t n)
{
    /* In four places at once: of one alone a processor reads less than memory can give. */
    const size_t count = n / STRIDE;
    const lane *from = (const lane *)(const void *)at;
    lane a = {0};
    lane b = {0};
    lane c = {0};
    lane d = {0};

    for (size_t i = 0; i < count; i++) {
        a ^= from[i];
        b ^= from[count + i];
        c ^= from[2 * count + i];
        d ^= from[3 * count + i];
    }
    a ^= b ^ c ^ d;
    uint64_t all = 0;
    for (size_t i = 0; i < LANE_BYTES / sizeof all; i++) {
        all ^= a[i];
    }
    return all;
}

uint64_t timing_spin(uint64_t n)
{
    uint64_t value = n;

    for (; n > 0; n--) {
        value = value * 6364136223846793005u + 1442695040888963407u; /* each step waits for the one before */
    }
    return value;
}
