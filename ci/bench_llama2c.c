/* bench_llama2c.c: llama2.c as a peer of ci/bench, compiled with -DTESTING -DRUN_C="its run.c".
 *
 *     bench_llama2c CHECKPOINT.bin
 *
 * It answers as ci/bench_worker.py does: a name, then for each line "decode COUNT THREADS" the seconds of COUNT tokens from
 * position 0 on, by its forward() alone.
 */
#define _GNU_SOURCE

#include RUN_C

enum { SAMPLES = 4096 };
#define LEAST 0.5 /* seconds */

static double clock_seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static double time_decode(Transformer *model, int count)
{
    const double begin = clock_seconds();
    unsigned token = 1;
    for (int position = 0; position < count; position++) {
        token = token * 1664525u + 1013904223u;
        forward(model, (int)((token >> 8) % (unsigned)model->config.vocab_size), position);
    }
    return clock_seconds() - begin;
}

static int rising(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

int main(int argc, char **argv)
{
    static double taken[SAMPLES];
    Transformer model;
    char call[16];
    int count;
    int threads;

    if (argc != 2) {
        return 2;
    }
    build_transformer(&model, argv[1]);
    puts("llama2.c, f32, a dense model that reads as much");
    fflush(stdout);
    while (scanf("%15s %d %d", call, &count, &threads) == 3) {
        int samples = 0;
        double sum = 0.0;
        if (strcmp(call, "decode") != 0 || count < 1 || count > model.config.seq_len || threads != 1) {
            return 2;
        }
        time_decode(&model, count);
        while (sum < LEAST && samples < SAMPLES) {
            taken[samples] = time_decode(&model, count);
            sum += taken[samples++];
        }
        qsort(taken, (size_t)samples, sizeof taken[0], rising);
        printf("%.9f\n", taken[samples / 2]);
        fflush(stdout);
    }
    return 0;
}
