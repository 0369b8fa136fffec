/* bench_limits.c: what this machine can do at most, for ci/bench. Each call prints numbers, one a line.
 *
 *     limits read BYTES THREADS    GB/s of reading BYTES again and again, each thread its share
 *     limits peak NAME             10^9 multiply-adds of int8 a second in registers, at best: avx2, vnni256 or vnni512
 *     limits products NAME         the same, on average over a longer time: with all that comes between
 *     limits select N K            ns of choosing K of N experts, the logits in the L1 cache, with AVX2: 2 of 8, 2 or 8
 *                                  of 128
 *     limits router N K            the same, with their weights
 *
 * A program that the processor cannot run prints nothing and ends with 3.
 */
#define _GNU_SOURCE

#include "kernels/avx2/router.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { READ_NS = 200000000, PEAK_NS = 100000000, PRODUCTS_NS = 400000000, MOST_THREADS = 64, MOST_EXPERTS = 128, SETS = 16 };

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- reading ---- */

struct share {
    const uint8_t *at;
    size_t bytes;
    pthread_barrier_t *start;
    double gigabytes; /* a second */
};

/* In four places at once: of one alone a processor reads less than memory can give. */
__attribute__((target("avx2"))) static void read_all(const uint8_t *at, size_t bytes)
{
    const size_t count = bytes / 128;
    const __m256i *from = (const __m256i *)(const void *)at;
    __m256i a = _mm256_setzero_si256();
    __m256i b = a;
    __m256i c = a;
    __m256i d = a;
    for (size_t i = 0; i < count; i++) {
        a = _mm256_xor_si256(a, _mm256_load_si256(from + i));
        b = _mm256_xor_si256(b, _mm256_load_si256(from + count + i));
        c = _mm256_xor_si256(c, _mm256_load_si256(from + 2 * count + i));
        d = _mm256_xor_si256(d, _mm256_load_si256(from + 3 * count + i));
    }
    __asm__ volatile("" : : "x"(_mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d))));
}

static void *read_share(void *of)
{
    struct share *share = of;
    const size_t piece = share->bytes < (64u << 20) ? share->bytes : (64u << 20);
    size_t at = 0;
    uint64_t done = 0;
    uint64_t end;
    read_all(share->at, piece);
    pthread_barrier_wait(share->start);
    const uint64_t begin = now();
    do {
        for (size_t burst = 0; burst < (4u << 20); burst += piece) {
            at = at + piece > share->bytes ? 0 : at;
            read_all(share->at + at, piece);
            at += piece;
            done += piece;
        }
        end = now();
    } while (end - begin < READ_NS);
    share->gigabytes = (double)done / (double)(end - begin);
    return NULL;
}

static int measure_read(size_t bytes, size_t threads)
{
    static struct share shares[MOST_THREADS];
    static pthread_t handles[MOST_THREADS];
    pthread_barrier_t start;
    double sum = 0;
    if (threads == 0 || threads > MOST_THREADS || bytes / threads < 4096) {
        return 2;
    }
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        const size_t part = bytes / threads / 128 * 128;
        shares[i] = (struct share){memory + i * part, part, &start, 0};
        if (pthread_create(&handles[i], NULL, read_share, &shares[i]) != 0) {
            return 1;
        }
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        sum += shares[i].gigabytes;
    }
    printf("%.3f\n", sum);
    return 0;
}

/* ---- multiply-adds ---- */

/* Ten named accumulators, since an array of them would live in memory. */
#define TEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
enum { ROUNDS = 100000 };

__attribute__((target("avx2"))) static uint64_t peak_avx2(void)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i a = _mm256_set1_epi8(3);
    __m256i b = _mm256_set1_epi8(5);
#define X(i) __m256i sum##i = _mm256_setzero_si256();
    TEN(X)
#undef X
    for (int round = 0; round < ROUNDS; round++) {
        __asm__ volatile("" : "+x"(a), "+x"(b));
#define X(i)                                                                                \
    sum##i = _mm256_add_epi32(sum##i, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones)); \
    __asm__ volatile("" : "+x"(a));
        TEN(X)
#undef X
    }
#define X(i) __asm__ volatile("" : : "x"(sum##i));
    TEN(X)
#undef X
    return (uint64_t)ROUNDS * 10 * 32;
}

__attribute__((target("avx512vnni,avx512vl"))) static uint64_t peak_vnni256(void)
{
    __m256i a = _mm256_set1_epi8(3);
    __m256i b = _mm256_set1_epi8(5);
#define X(i) __m256i sum##i = _mm256_setzero_si256();
    TEN(X)
#undef X
    for (int round = 0; round < ROUNDS; round++) {
        __asm__ volatile("" : "+x"(a), "+x"(b));
#define X(i) sum##i = _mm256_dpbusd_epi32(sum##i, a, b);
        TEN(X)
#undef X
    }
#define X(i) __asm__ volatile("" : : "x"(sum##i));
    TEN(X)
#undef X
    return (uint64_t)ROUNDS * 10 * 32;
}

__attribute__((target("avx512vnni,avx512f"))) static uint64_t peak_vnni512(void)
{
    __m512i a = _mm512_set1_epi8(3);
    __m512i b = _mm512_set1_epi8(5);
#define X(i) __m512i sum##i = _mm512_setzero_si512();
    TEN(X)
#undef X
    for (int round = 0; round < ROUNDS; round++) {
        __asm__ volatile("" : "+v"(a), "+v"(b));
#define X(i) sum##i = _mm512_dpbusd_epi32(sum##i, a, b);
        TEN(X)
#undef X
    }
#define X(i) __asm__ volatile("" : : "v"(sum##i));
    TEN(X)
#undef X
    return (uint64_t)ROUNDS * 10 * 64;
}

static int measure_peak(const char *name, bool best_alone)
{
    uint64_t (*peak)(void) = NULL;
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2")) {
        peak = peak_avx2;
    } else if (strcmp(name, "vnni256") == 0 && __builtin_cpu_supports("avx512vnni") &&
               __builtin_cpu_supports("avx512vl")) {
        peak = peak_vnni256;
    } else if (strcmp(name, "vnni512") == 0 && __builtin_cpu_supports("avx512vnni")) {
        peak = peak_vnni512;
    }
    if (peak == NULL) {
        return 3;
    }
    double best = 0; /* of many short pieces: what comes between cannot make it faster */
    uint64_t all = 0;
    const uint64_t begin = now();
    while (now() - begin < (best_alone ? PEAK_NS : PRODUCTS_NS)) {
        const uint64_t from = now();
        const uint64_t done = peak();
        const double speed = (double)done / (double)(now() - from);
        best = speed > best ? speed : best;
        all += done;
    }
    printf("%.3f\n", best_alone ? best : (double)all / (double)(now() - begin));
    return 0;
}

/* ---- the router ---- */

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

static float logits[SETS][MOST_EXPERTS];

/* As in a package, where these are constants: one function for each. Choosing among few does not write its scores. */
#define SHAPE(n, k)                                                                           \
    static void select_##k##_of_##n(uint32_t *index, float *weight, uint32_t set)             \
    {                                                                                         \
        colibri_choose_experts(index, weight, logits[set], n, k);                             \
    }                                                                                         \
                                                                                              \
    static void router_##k##_of_##n(uint32_t *index, float *weight, uint32_t set)             \
    {                                                                                         \
        float scores[n];                                                                      \
        memcpy(scores, logits[set], sizeof scores);                                           \
        colibri_router(index, weight, scores, n, k, true);                                    \
    }

SHAPE(8, 2)
SHAPE(128, 2)
SHAPE(128, 8)

static const struct {
    uint32_t experts;
    uint32_t top_k;
    void (*select)(uint32_t *index, float *weight, uint32_t set);
    void (*router)(uint32_t *index, float *weight, uint32_t set);
} shapes[] = {
    {8, 2, select_2_of_8, router_2_of_8},
    {128, 2, select_2_of_128, router_2_of_128},
    {128, 8, select_8_of_128, router_8_of_128},
};

static int measure_router(bool weights, uint32_t experts, uint32_t top_k)
{
    enum { CALLS = 1024, TIMES = 101 };
    static double times[TIMES];
    float weight[MOST_EXPERTS];
    uint32_t index[MOST_EXPERTS];
    uint32_t random = 1;
    for (uint32_t i = 0; i < SETS * MOST_EXPERTS; i++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        logits[i / MOST_EXPERTS][i % MOST_EXPERTS] = (float)random / 1e9f;
    }
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        if (shapes[shape].experts != experts || shapes[shape].top_k != top_k) {
            continue;
        }
        for (int time = 0; time < TIMES; time++) {
            const uint64_t begin = now();
            for (uint32_t call = 0; call < CALLS; call++) {
                (weights ? shapes[shape].router : shapes[shape].select)(index, weight, call % SETS);
                __asm__ volatile("" : : "r"(index), "r"(weight) : "memory");
            }
            times[time] = (double)(now() - begin) / CALLS;
        }
        qsort(times, TIMES, sizeof times[0], compare);
        printf("%.3f\n", times[TIMES / 2]);
        return 0;
    }
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "read") == 0) {
        return measure_read(strtoull(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    }
    if (argc == 3 && (strcmp(argv[1], "peak") == 0 || strcmp(argv[1], "products") == 0)) {
        return measure_peak(argv[2], strcmp(argv[1], "peak") == 0);
    }
    const bool weights = strcmp(argv[argc > 1], "router") == 0;
    if (argc == 4 && (weights || strcmp(argv[1], "select") == 0)) {
        return measure_router(weights, (uint32_t)strtoul(argv[2], NULL, 10), (uint32_t)strtoul(argv[3], NULL, 10));
    }
    fputs("limits read BYTES THREADS | peak NAME | select N K | router N K\n", stderr);
    return 2;
}
