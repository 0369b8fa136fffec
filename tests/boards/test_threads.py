"""Threads on Linux boards: the same bits for any number, no data race, and nothing of them in a package for one."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from board_packages import EXAMPLES, ORACLE, Make

from colibri.boards.load import load_board
from colibri.boards.profile import EmulatorKind
from colibri.cli import main
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.paths import data_folder
from colibri.recipe import parse_recipe
from colibri.testing import check_package, read_cases
from colibri.toolchain.probe import examine_emulator

F16, I8 = StateType.F16, StateType.I8
BOARD = "x86-64-v3"
RACES = r"""
#include "sensor/model.h"
#include "tiny/model.h"
#include "tiny/port/threads/pool.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

static _Alignas(16) uint8_t alone_block[TINY_MEMORY_BYTES];
static _Alignas(16) uint8_t tiny_block[TINY_MEMORY_BYTES];
static _Alignas(16) uint8_t sensor_blocks[2][SENSOR_MEMORY_BYTES];
static struct pool pool;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* All positions, by a prompt and by steps; the threads fall asleep between two of them. */
static int same_tokens(tiny_context *alone, tiny_context *tiny)
{
    static float want[TINY_VOCAB];
    static float got[TINY_VOCAB];
    uint32_t prompt[TINY_CONTEXT / 2];
    for (uint32_t i = 0; i < TINY_CONTEXT / 2; i++) {
        prompt[i] = i * 7 % TINY_VOCAB;
    }
    CHECK(tiny_reset(alone) == COLIBRI_OK && tiny_reset(tiny) == COLIBRI_OK);
    CHECK(tiny_prefill(alone, prompt, TINY_CONTEXT / 2, want) == COLIBRI_OK);
    CHECK(tiny_prefill(tiny, prompt, TINY_CONTEXT / 2, got) == COLIBRI_OK);
    CHECK(memcmp(want, got, sizeof want) == 0);
    for (uint32_t i = TINY_CONTEXT / 2; i < TINY_CONTEXT; i++) {
        const uint32_t token = colibri_argmax(got, TINY_VOCAB);
        CHECK(tiny_step(alone, token, want) == COLIBRI_OK && tiny_step(tiny, token, got) == COLIBRI_OK);
        CHECK(memcmp(want, got, sizeof want) == 0);
        if (i % 4 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    return 0;
}

int main(void)
{
    static const float input[SENSOR_BATCH * SENSOR_INPUTS] = {0.5f, -0.25f};
    static float want[SENSOR_BATCH * SENSOR_OUTPUTS];
    static float got[SENSOR_BATCH * SENSOR_OUTPUTS];
    static const uint32_t counts[] = {1, 2, 3, 5, POOL_MOST};
    tiny_context *alone;
    tiny_context *tiny;
    sensor_context *sensors[2];
    CHECK(tiny_init(&alone, alone_block, sizeof alone_block, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(sensor_init(&sensors[i], sensor_blocks[i], SENSOR_MEMORY_BYTES, sensor_bin, SENSOR_MODEL_BYTES) ==
              COLIBRI_OK);
    }
    CHECK(sensor_forward(sensors[0], input, want) == COLIBRI_OK);
    CHECK(pool_start(&pool, 0) != 0 && pool_start(&pool, POOL_MOST + 1) != 0);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        CHECK(pool_start(&pool, counts[i]) == 0 && pool.threads == counts[i]);
        CHECK(tiny_init(&tiny, tiny_block, sizeof tiny_block, tiny_bin, TINY_MODEL_BYTES) == COLIBRI_OK);
        CHECK(tiny_use_team(tiny, &pool.team) == COLIBRI_OK);
        CHECK(sensor_use_team(sensors[1], &pool.team) == COLIBRI_OK);
        if (same_tokens(alone, tiny) != 0) {
            return 1;
        }
        CHECK(sensor_forward(sensors[1], input, got) == COLIBRI_OK && memcmp(want, got, sizeof want) == 0);
        CHECK(tiny_use_team(tiny, NULL) == COLIBRI_OK && same_tokens(alone, tiny) == 0);
        tiny_free(tiny);
        CHECK(tiny_use_team(tiny, &pool.team) == COLIBRI_BAD_ARGUMENT);
        pool_stop(&pool);
        CHECK(sensor_use_team(sensors[1], &pool.team) == COLIBRI_BAD_ARGUMENT);
    }
    CHECK(pool_processors() >= 1 && pool_processors() <= POOL_MOST);
    printf("done\n");
    return 0;
}
"""
REFUSED = r"""
#include "port/threads/pool.h"
#include <stdio.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*function)(void *), void *given);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*function)(void *), void *given);

static int made;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*function)(void *), void *given)
{
    made++;
    return made == 3 ? 11 : __real_pthread_create(thread, how, function, given);
}

int main(void)
{
    static struct pool pool;
    const int error = pool_start(&pool, 5);
    printf("%d after %d, %d left\n", error, made, (int)pool.threads);
    return 0;
}
"""
SHALLOW = r"""
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "port/threads/pool.h"
#include <stdio.h>

enum { DEPTH = 1 << 20 };

static atomic_uint touched;

static void deep(const void *job, uint32_t part, uint32_t parts)
{
    volatile char bytes[DEPTH];
    (void)job;
    (void)part;
    for (size_t i = DEPTH; i > 0; i -= 1024) {
        bytes[i - 1] = 1;
    }
    atomic_fetch_add(&touched, (unsigned)bytes[1023]);
    while (atomic_load(&touched) < parts) { /* every thread has one */
    }
}

int main(void)
{
    static struct pool pool;
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, 128 * 1024);
    pthread_setattr_default_np(&how);
    const int error = pool_start(&pool, 3);
    pool.team.run(pool.team.pool, deep, NULL, 3);
    printf("%d, %u\n", error, atomic_load(&touched));
    pool_stop(&pool);
    return 0;
}
"""
COUNTED = r"""
#include "model.h"
#include <stdio.h>

static _Alignas(16) uint8_t block[SHAKESPEARE_MOE_MEMORY_BYTES];

/* A team without threads. */
static void run(void *count, colibri_part part, const void *job, uint32_t parts)
{
    *(int *)count += 1;
    for (uint32_t i = parts; i > 0; i--) {
        part(job, i - 1, parts);
    }
}

int main(void)
{
    static const uint32_t tokens[4] = {5, 5, 5, 5};
    static float logits[SHAKESPEARE_MOE_VOCAB];
    shakespeare_moe_context *model;
    int count = 0;
    const colibri_team team = {.parts = 3, .run = run, .pool = &count};
    shakespeare_moe_init(&model, block, sizeof block, shakespeare_moe_bin, SHAKESPEARE_MOE_MODEL_BYTES);
    shakespeare_moe_use_team(model, &team);
    shakespeare_moe_prefill(model, tokens, 4, logits);
    printf("%d\n", count);
    return 0;
}
"""
FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-pthread"]
MODELS = {  # with threads: fewer and more than tiles and heads
    "mixtral-sharded-swa": (2, Options(Scheme.W8A8, I8, prefill=4, context=40)),  # longer than its window of 16
    "mixtral-base": (3, parse_recipe("w4a8:1.experts=w2a16+o10:experts.down=w8a8:kv=f16:prefill=8:context=24")),
    "qwen2moe-base": (5, parse_recipe("f32:experts=w4a8:shared.down=w8a8:prefill=4:context=24")),
    "gptoss-base": (3, Options(Scheme.W8A8, I8, prefill=3, context=24)),
    "llama4-top1": (2, Options(Scheme.F32, prefill=2, context=24)),
    "phimoe-base": (5, Options(Scheme.W4A16, F16, context=24)),
    "deepseekv2-lite": (3, Options(Scheme.W8A8, prefill=3, context=24)),
    "switch-base": (3, Options(Scheme.W8A8, prefill=3, context=20, source=24)),
    "llama-llama3rope-tied": (2, Options(Scheme.W4A8, prefill=8, context=24)),
}
FOREIGN = [
    ("mixtral-base", "raspberry-pi-4", Options(Scheme.W4A8, F16, prefill=4, context=24)),
    ("switch-base", "starfive-visionfive-2", Options(Scheme.W8A8, prefill=3, context=20, source=24)),
]


def has_its_bits(checkpoint: Path, board: str, options: Options, make: Make) -> None:
    """Those of the reference, alone and once more with threads."""
    folder, package = make(checkpoint, board, options)
    assert package.threads == options.threads
    results = check_package(folder)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    assert all(result.mismatches == () and result.failure is None for result in results)
    assert all(result.cases == 2 * len(read_cases(folder)) and result.outputs > 0 for result in results)


@pytest.mark.emulator
@pytest.mark.parametrize("model", MODELS)
def test_a_family_has_its_bits(model: str, make: Make) -> None:
    threads, options = MODELS[model]
    has_its_bits(ORACLE / model, BOARD, replace(options, threads=threads), make)


@pytest.mark.emulator
@pytest.mark.parametrize(("threads", "batch"), [(2, 1), (3, 3), (5, 8)])
def test_a_sensor_model_has_its_bits(threads: int, batch: int, make: Make) -> None:
    checkpoint = EXAMPLES / "load-moe/top2-e4-norm"
    has_its_bits(checkpoint, BOARD, Options(batch=batch, threads=threads), make)


@pytest.mark.emulator
@pytest.mark.parametrize(("model", "board", "options"), FOREIGN)
def test_other_processors_have_the_same_bits(model: str, board: str, options: Options, make: Make) -> None:
    has_its_bits(ORACLE / model, board, replace(options, threads=3), make)


def compiled(folder: Path, sources: list[Path], *options: str) -> list[str]:
    """Objects of some sources of a package."""
    objects = []
    for source in sources:
        target = folder / f"{source.stem}-{source.parent.name}.o"
        include = ["-I", str(folder), "-I", str(folder / "runtime/include"), "-I", str(folder / "runtime")]
        command = ["gcc", *FLAGS, "-march=x86-64-v3", "-ffp-contract=off", "-fno-math-errno", *options, *include]
        subprocess.run([*command, "-c", str(source), "-o", str(target)], check=True, cwd=folder)
        objects.append(str(target))
    return objects


def test_no_data_race(make: Make, tmp_path: Path) -> None:
    """By ThreadSanitizer, over two models that share a pool: any number of threads, started and stopped again."""
    board = load_board(BOARD)
    native = next(one for one in board.emulators if one.kind is EmulatorKind.NATIVE)
    if problem := examine_emulator(board, native).problem:
        pytest.skip(problem)
    sensor, _ = make(EXAMPLES / "load-moe/top1-e4", options=Options(prefix="sensor", batch=3, threads=2), name="sensor")
    options = Options(Scheme.W8A8, I8, context=40, prefill=8, prefix="tiny", threads=2)
    tiny, _ = make(ORACLE / "mixtral-sharded-swa", options=options, name="tiny")
    race = "-fsanitize=thread"
    objects = compiled(sensor, [sensor / "src/model.c", sensor / "src/model_bin.S"], race)
    runtime = sorted((tiny / "runtime/core").glob("*.c"))
    pool = tiny / "port/threads/pool.c"
    objects += compiled(tiny, [tiny / "src/model.c", tiny / "src/model_bin.S", pool, *runtime], race)
    (tmp_path / "main.c").write_text(RACES)
    include = ["-I", str(tmp_path), "-I", str(tiny / "runtime/include")]
    program = str(tmp_path / "program")
    subprocess.run(["gcc", *FLAGS, race, *include, str(tmp_path / "main.c"), *objects, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def answer_of(program: str, folder: Path, *options: str) -> str:
    """What a program around the pool prints."""
    (folder / "main.c").write_text(program)
    runtime, image = data_folder("runtime_c"), str(folder / "program")
    (folder / "port").symlink_to(runtime / "ports")
    sources = [str(folder / "main.c"), str(folder / "port/threads/pool.c")]
    include = ["-I", str(folder), "-I", str(runtime / "include")]
    subprocess.run(["gcc", *FLAGS, *include, *options, *sources, "-o", image], check=True)
    return subprocess.run([image], capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_system_that_starts_no_more_threads(tmp_path: Path) -> None:
    assert answer_of(REFUSED, tmp_path, "-Wl,--wrap=pthread_create") == "11 after 3, 0 left\n"


def test_a_system_with_small_stacks(tmp_path: Path) -> None:
    """As that of musl, 128 KB: a product of many long rows needs more."""
    assert answer_of(SHALLOW, tmp_path) == "0, 3\n"


def test_an_expert_that_no_row_chose_is_no_job(make: Make, tmp_path: Path) -> None:
    """Four layers of 8 experts, of which 4 equal tokens choose some: q, k and v, attention, o, three jobs an expert."""
    folder, _ = make(EXAMPLES / "shakespeare-moe", options=Options(Scheme.W8A8, prefill=4, context=8, threads=3))
    (tmp_path / "main.c").write_text(COUNTED)
    sources = [tmp_path / "main.c", folder / "src/model.c", folder / "src/model_bin.S"]
    program = str(tmp_path / "program")
    objects = compiled(folder, [*sources, *sorted((folder / "runtime/core").glob("*.c"))])
    subprocess.run(["gcc", *objects, "-o", program], check=True)
    handed_out = int(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    assert (handed_out - 1) % 3 == 0  # the head is one
    assert 4 * (3 + 3 * 2) < handed_out < 1 + 4 * (3 + 3 * 8)


def test_the_header_names_the_pool_that_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    model = str(EXAMPLES / "load-moe/top1-e4")
    assert main(["generate", model, "--board", BOARD, "-o", str(folder), "--threads", "2"]) == 0
    named = re.findall(r"\bport/\S+\.h\b", (folder / "model.h").read_text())
    assert named == ["port/threads/pool.h"] and (folder / named[0]).is_file()


@pytest.mark.parametrize("asked", [(), ("--threads", "auto"), ("--threads", "1")])
def test_one_thread_leaves_no_trace(asked: tuple[str, ...], tmp_path: Path) -> None:
    """And a small model takes one by itself."""
    folder = tmp_path / "p"
    assert main(["generate", str(EXAMPLES / "load-moe/top2-e4-norm"), "--board", BOARD, "-o", str(folder), *asked]) == 0
    text = "".join(path.read_text() for path in folder.rglob("*") if path.suffix in (".c", ".h", ".ninja", ".txt"))
    assert re.findall(r"pthread|colibri_team|colibri_share|core/share\.h|uint32_t parts", text) == []
    assert not list(folder.rglob("*team*")) and not (folder / "port/threads").exists()


@pytest.mark.parametrize("given", ["0", "65", "-1", "two", "1.5"])
def test_what_is_no_number_of_threads(given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = str(EXAMPLES / "load-moe/top1-e4")
    assert main(["generate", checkpoint, "--board", BOARD, "-o", str(tmp_path / "p"), "--threads", given]) == 2
    assert f"'{given}' is neither auto nor from 1 to 64" in capsys.readouterr().err


def test_threads_are_for_linux(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = str(EXAMPLES / "load-moe/top1-e4"), str(tmp_path / "p")
    assert main(["generate", checkpoint, "--board", "stm32f405", "-o", out, "--threads", "2"]) == 2
    assert "--threads: board stm32f405 runs no Linux" in capsys.readouterr().err
    assert main(["generate", checkpoint, "--board", "stm32f405", "-o", out, "--threads", "auto"]) == 0
