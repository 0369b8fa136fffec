"""The C API by hand: two models in one program, every status, nothing written outside the block."""

import subprocess
from pathlib import Path

from board_packages import EXAMPLES, ORACLE, Make

from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.toolchain.build import build

MAIN = r"""
#include "sensor/model.h"
#include "tiny/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) uint8_t sensor_block[SENSOR_MEMORY_BYTES + 16];
static _Alignas(16) uint8_t tiny_block[TINY_MEMORY_BYTES + 16];

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static _Alignas(16) uint8_t copy[TINY_MODEL_BYTES];

static int statuses(void)
{
    tiny_context *model;
    CHECK(tiny_init(NULL, tiny_block, sizeof tiny_block, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_BAD_ARGUMENT);
    CHECK(tiny_init(&model, NULL, sizeof tiny_block, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_BAD_ARGUMENT);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, NULL, TINY_MODEL_BYTES) == COLIBRI_BAD_ARGUMENT);
    CHECK(tiny_init(&model, tiny_block + 4, sizeof tiny_block, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_BAD_ALIGNMENT);
    CHECK(tiny_init(&model, tiny_block, TINY_MEMORY_BYTES - 1, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_MEMORY_TOO_SMALL);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, tiny_bin, 63) == COLIBRI_MODEL_TOO_SHORT);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, tiny_bin, TINY_MODEL_BYTES - 1) == COLIBRI_MODEL_TOO_SHORT);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, sensor_bin, SENSOR_MODEL_BYTES) == COLIBRI_MODEL_MISMATCH);
    CHECK(model == NULL);

    memcpy(copy, tiny_bin, TINY_MODEL_BYTES);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, copy, TINY_MODEL_BYTES) == COLIBRI_OK);
    CHECK(tiny_init(&model, tiny_block, sizeof tiny_block, copy + 1, TINY_MODEL_BYTES) == COLIBRI_BAD_ALIGNMENT);
    copy[0] = 'c';
    CHECK(colibri_check(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_MODEL_UNKNOWN);
    copy[0] = 'C';
    copy[8] = 9;
    CHECK(colibri_check(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_MODEL_VERSION);
    copy[8] = tiny_bin[8];
    copy[33] ^= 1; /* the number of sections */
    CHECK(colibri_check(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_MODEL_UNKNOWN);
    copy[33] ^= 1;
    copy[64] ^= 1; /* the first section's offset */
    CHECK(colibri_check(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_MODEL_DAMAGED);
    copy[64] ^= 1;
    copy[TINY_MODEL_BYTES / 2] ^= 1;
    CHECK(colibri_check(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_OK);
    CHECK(colibri_verify(&tiny_model, copy, TINY_MODEL_BYTES) == COLIBRI_MODEL_DAMAGED);
    CHECK(colibri_verify(&tiny_model, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_OK);
    CHECK(strcmp(colibri_status_text(COLIBRI_CONTEXT_FULL), "the context is full; reset to start again") == 0);
    const float equal[] = {-5.0f, -2.0f, -3.0f, -2.0f, -2.5f};
    CHECK(colibri_argmax(equal, 5) == 1 && colibri_argmax(equal, 1) == 0 && colibri_argmax(equal + 2, 3) == 1);
    CHECK(strcmp(colibri_status_text((colibri_status)77), "unknown status") == 0);
    return 0;
}

int main(void)
{
    static float logits[TINY_VOCAB];
    static uint8_t before[TINY_MEMORY_BYTES];
    const float input[SENSOR_BATCH * SENSOR_INPUTS] = {0.5f};
    float first[SENSOR_BATCH * SENSOR_OUTPUTS];
    float second[SENSOR_BATCH * SENSOR_OUTPUTS];
    sensor_context *sensor;
    tiny_context *tiny;

    if (statuses() != 0) {
        return 1;
    }
    memset(sensor_block, 0xA5, sizeof sensor_block);
    memset(tiny_block, 0xA5, sizeof tiny_block);
    CHECK(sensor_init(&sensor, sensor_block, SENSOR_MEMORY_BYTES, sensor_bin, SENSOR_MODEL_BYTES) == COLIBRI_OK);
    CHECK(tiny_init(&tiny, tiny_block, TINY_MEMORY_BYTES, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_OK);
    CHECK(sensor_num_experts(0) == 4 && sensor_num_experts(1) == 0);
    CHECK(tiny_num_experts(0) == 7 && tiny_num_experts(1) == 8 && tiny_num_experts(2) == 0);
    CHECK(sensor_used_bytes(sensor) == SENSOR_MEMORY_BYTES && tiny_used_bytes(tiny) == TINY_MEMORY_BYTES);
    CHECK(sensor_model.top_k == SENSOR_TOP_K && tiny_model.context == TINY_CONTEXT);

    CHECK(sensor_forward(sensor, input, first) == COLIBRI_OK);
    for (uint32_t i = 0; i < TINY_CONTEXT; i++) {
        CHECK(tiny_position(tiny) == i);
        CHECK(tiny_step(tiny, i % TINY_VOCAB, logits) == COLIBRI_OK);
    }
    CHECK(sensor_forward(sensor, input, second) == COLIBRI_OK);
    CHECK(memcmp(first, second, sizeof first) == 0);

    /* One value that is not finite, in the last sample: no output of any sample is written. */
    float wild[SENSOR_BATCH * SENSOR_INPUTS] = {0.5f};
    memset(first, 0x55, sizeof first);
    memset(second, 0x55, sizeof second);
    for (int sign = -1; sign <= 1; sign++) {
        wild[SENSOR_BATCH * SENSOR_INPUTS - 1] = sign == 0 ? NAN : (float)sign * INFINITY;
        CHECK(sensor_forward(sensor, wild, second) == COLIBRI_NOT_FINITE);
        CHECK(memcmp(first, second, sizeof first) == 0);
    }
    wild[SENSOR_BATCH * SENSOR_INPUTS - 1] = 3.4e38f;
    CHECK(sensor_forward(sensor, wild, second) == COLIBRI_OK);

    /* A full context is a status, never a write. */
    memcpy(before, tiny_block, sizeof before);
    const float kept = logits[3];
    const uint32_t two[2] = {0, 1};
    CHECK(tiny_step(tiny, 0, logits) == COLIBRI_CONTEXT_FULL);
    CHECK(tiny_prefill(tiny, two, 2, logits) == COLIBRI_CONTEXT_FULL);
    CHECK(tiny_step(tiny, TINY_VOCAB, logits) == COLIBRI_BAD_TOKEN);
    CHECK(tiny_prefill(tiny, two, 0, logits) == COLIBRI_BAD_ARGUMENT);
    CHECK(memcmp(before, tiny_block, sizeof before) == 0 && logits[3] == kept);
    CHECK(tiny_reset(tiny) == COLIBRI_OK && tiny_position(tiny) == 0);

    /* Nor does a prompt write whose last token is not one. */
    const uint32_t wrong[6] = {0, 1, 2, 3, 4, TINY_VOCAB};
    memcpy(before, tiny_block, sizeof before);
    CHECK(tiny_prefill(tiny, wrong, 6, logits) == COLIBRI_BAD_TOKEN);
    CHECK(memcmp(before, tiny_block, sizeof before) == 0 && logits[3] == kept);
    CHECK(tiny_step(tiny, 0, logits) == COLIBRI_OK);

    for (int i = 0; i < 16; i++) {
        CHECK(sensor_block[SENSOR_MEMORY_BYTES + i] == 0xA5 && tiny_block[TINY_MEMORY_BYTES + i] == 0xA5);
    }
    tiny_free(tiny);
    CHECK(tiny_step(tiny, 0, logits) == COLIBRI_BAD_ARGUMENT && tiny_used_bytes(tiny) == 0);
    tiny_free(NULL);
    printf("done\n");
    return 0;
}
"""


def test_two_models_in_one_program(make: Make, tmp_path: Path) -> None:
    sensor, _ = make(EXAMPLES / "load-moe/top1-e4", options=Options(prefix="sensor", batch=3), name="sensor")
    tiny, _ = make(
        ORACLE / "mixtral-base",
        options=Options(Scheme.W4A8, context=16, prefill=4, drop={0: {3}}, prefix="tiny"),
        name="tiny",
    )
    for folder in (sensor, tiny):
        build(folder, ["build/product.elf"])
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    include = ["-I", str(tmp_path), "-I", str(sensor / "runtime/include")]
    libraries = [str(sensor / "build/libsensor.a"), str(tiny / "build/libtiny.a")]
    program = str(tmp_path / "program")
    subprocess.run(["gcc", *flags, *include, str(tmp_path / "main.c"), *libraries, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0)
