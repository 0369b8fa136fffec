"""app/cycles.h on emulated boards, with a counter whose answers are known."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from small_models import ORACLE, sensor

from colibri.cli import main
from colibri.emulate.runner import run
from colibri.package import Package, load_package

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
# Calls take 7, 14, …, 70 and again from 7; the counter passes 2^32 on the way.
COUNTER = """\
#include "app/cycles.h"
#include "port/port.h"

static uint32_t now = 0xFFFFFF00u;
static uint32_t calls;

static uint32_t cycles(void)
{
    now += calls % 2 == 0 ? 1000u : 7u * (calls / 2 % 10 + 1);
    calls++;
    return now;
}

static void say(uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint32_t left = (uint32_t)value;
    digits[--at] = '\\n';
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    port_write(digits + at, sizeof digits - at);
}

int main(void)
{
    static uint64_t taken[40];
    struct latency_samples samples = {taken, 40, 7}; /* of an earlier call */
@CALL@
    const struct latency found = latency_summary(&samples);
    say(found.count);
    say(found.least);
    say(found.p50);
    say(found.p95);
    say(found.p99);
    say(found.worst);
    return status == COLIBRI_OK ? 0 : 1;
}
"""
STEPS = """\
    static _Alignas(16) uint8_t memory[M_MEMORY_BYTES];
    static float logits[M_VOCAB];
    m_context *model;
    colibri_status status = m_init(&model, memory, sizeof memory, m_bin, M_MODEL_BYTES);
    if (status == COLIBRI_OK) {
        status = m_time_steps(model, cycles, &samples, logits);
    }"""
PREFILL = STEPS.replace(
    "m_time_steps(model, cycles, &samples, logits)", "m_time_prefill(model, cycles, &samples, prompt, 3, logits)"
)
PREFILL = f"    static const uint32_t prompt[] = {{1, 2, 3}};\n{PREFILL}"
FORWARD = """\
    static _Alignas(16) uint8_t memory[M_MEMORY_BYTES];
    static float inputs[M_INPUTS];
    static float outputs[M_OUTPUTS];
    m_context *model;
    colibri_status status = m_init(&model, memory, sizeof memory, m_bin, M_MODEL_BYTES);
    if (status == COLIBRI_OK) {
        status = m_time_forward(model, cycles, &samples, inputs, outputs);
    }"""


@pytest.mark.parametrize("board", ["stm32f405", "riscv-virt-rv32imac"])
@pytest.mark.parametrize(
    ("checkpoint", "call"),
    [(ORACLE / "mixtral-base", STEPS), (ORACLE / "mixtral-base", PREFILL), (sensor("top2-e4-norm"), FORWARD)],
    ids=["steps", "prefill", "forward"],
)
def test_times_are_those_of_the_counter(board: str, checkpoint: Path, call: str, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    context = ["--context", "8"] if checkpoint.name == "mixtral-base" else []
    options = ["--board", board, "--prefix", "m", "-o", str(folder), "--scheme", "w4a8", *context]
    assert main(["generate", str(checkpoint), *options]) == 0
    package = load_package(folder)
    emulator = package.board.emulators[0]
    for program in (f"{package.board.toolchain.prefix}gcc", emulator.program):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (folder / "app/product.c").write_text(COUNTER.replace("@CALL@", call))
    subprocess.run(["ninja", "-C", str(folder), "build/product.elf"], check=True, capture_output=True)
    outcome = run(folder / "build/product.elf", package.board, emulator)
    assert outcome.exit_code == 0
    assert list(map(int, outcome.output.split())) == [40, 7, 35, 70, 70, 70]


# The difference between a loop of 1,100 rounds and one of 100 is that of 1,000 rounds, and nothing else.
OWN = """\
#include "app/cycles.h"
#include "port/port.h"

static uint32_t taken(uint32_t rounds)
{
    const uint32_t begin = m_cycles();
    for (volatile uint32_t i = 0; i < rounds;) {
        i = i + 1;
    }
    return m_cycles() - begin;
}

int main(void)
{
    m_start_cycles();
    const uint32_t thousand = taken(1100) - taken(100);
    port_write("cycles\\n", 7);
    return thousand % 1000 == 0 ? (int)(thousand / 1000) : 99;
}
"""


def own_counter(board: str, folder: Path) -> Package:
    options = ["--board", board, "--prefix", "m", "-o", str(folder)]
    assert main(["generate", str(sensor("top1-e4")), *options]) == 0
    (folder / "app/product.c").write_text(OWN)
    return load_package(folder)


@pytest.mark.parametrize(
    "board", ["nucleo-h743zi", "stm32f405", "esp32-c3", "raspberry-pi-pico-2-riscv", "riscv-virt-rv64imac"]
)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_both_compilers_take_the_counter_of_the_core(board: str, compiler: str, tmp_path: Path) -> None:
    package = own_counter(board, tmp_path / "p")
    flags = [flag for flag in package.board.toolchain.flags if compiler == "gcc" or not flag.startswith("-mcmodel")]
    name = f"{package.board.toolchain.prefix}gcc"
    if compiler == "clang":
        name, target = "clang", {"arm": "thumbv7em-none-eabi"}.get(package.board.cpu.arch, package.board.cpu.arch)
        flags = [f"--target={target}", *flags]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    command = [name, *flags, "-std=c11", "-O2", "-ffreestanding", *WARNINGS, "-I.", "-Iruntime/include", "-Iruntime"]
    subprocess.run([*command, "-c", "app/product.c", "-o", "product.o"], cwd=tmp_path / "p", check=True)


def test_mcycle_counts_what_runs(tmp_path: Path) -> None:
    package = own_counter("riscv-virt-rv32imac", tmp_path / "p")
    emulator = package.board.emulators[0]
    emulator = replace(emulator, args=(*emulator.args, "-icount", "shift=0"))  # else QEMU tells the host's time
    for program in (f"{package.board.toolchain.prefix}gcc", emulator.program):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    subprocess.run(["ninja", "-C", str(tmp_path / "p"), "build/product.elf"], check=True, capture_output=True)
    outcome = run(tmp_path / "p/build/product.elf", package.board, emulator)
    assert outcome.output == b"cycles\n"
    assert 4 <= outcome.exit_code <= 8  # instructions a round: load, add, store, load, compare


def test_a_core_without_a_counter_wants_one(tmp_path: Path) -> None:
    own_counter("microbit", tmp_path / "p")
    header = (tmp_path / "p/app/cycles.h").read_text()
    assert "m_cycles" not in header and "A Cortex-M0 counts no cycles" in header
