"""Proof that `colibri test` can fail: each planted fault changes bits, and is reported."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from board_packages import EXAMPLES, ORACLE, Make
from safetensors.numpy import load_file, save_file

from colibri.boards.profile import EmulatorKind
from colibri.cli import main
from colibri.emit.model_bin import ENTRY, HEADER
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.testing import check_package


@pytest.fixture
def tied_checkpoint(tmp_path: Path) -> Path:
    """A Mixtral whose experts come in threes with equal router rows, so that every choice of two has ties."""
    folder = tmp_path / "tied"
    folder.mkdir()
    tensors = load_file(ORACLE / "mixtral-base" / "model.safetensors")
    for name, values in tensors.items():
        if name.endswith("gate.weight"):
            tensors[name] = np.repeat(values[::3], 3, axis=0)[: len(values)]
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_bytes((ORACLE / "mixtral-base" / "config.json").read_bytes())
    return folder


def made(make: Make, checkpoint: Path = ORACLE / "mixtral-base") -> tuple[Path, Package]:
    return make(checkpoint, "x86-64-v3", Options(Scheme.W8A8, context=24, prefill=4))


def fails(folder: Path) -> list[str]:
    """Cases that differ natively; the command line says so with exit code 1."""
    (result,) = check_package(folder, emulators=("native",))
    assert main(["test", str(folder), "--emulator", "native"]) == (0 if result.passed else 1)
    return [mismatch.case for mismatch in result.mismatches]


def patch_model(folder: Path, offset: int, data: bytes) -> None:
    """Change bytes of model.bin, with all checksums made right again: only the outputs can tell."""
    path = folder / "model.bin"
    raw = bytearray(path.read_bytes())
    assert raw[offset : offset + len(data)] != data
    raw[offset : offset + len(data)] = data
    count = struct.unpack_from("<I", raw, 32)[0]
    for index in range(count):
        at = HEADER.size + index * ENTRY.size
        start, size = struct.unpack_from("<QQ", raw, at)
        struct.pack_into("<I", raw, at + 16, zlib.crc32(raw[start : start + size]))
    struct.pack_into("<I", raw, 36, zlib.crc32(raw[HEADER.size : HEADER.size + count * ENTRY.size]))
    struct.pack_into("<I", raw, 60, zlib.crc32(raw[:60]))
    path.write_bytes(raw)


def section(package: Package, name: str) -> int:
    return next(s.offset for s in package.sections if s.name == name)


def patch_text(path: Path, old: str, new: str, count: int = 1) -> None:
    text = path.read_text()
    assert text.count(old) == count, text.count(old)
    path.write_text(text.replace(old, new))


def test_an_untouched_package_passes(make: Make) -> None:
    folder, _ = made(make)
    assert fails(folder) == []


def test_one_flipped_weight_bit(make: Make) -> None:
    folder, package = made(make)
    # The lowest bit of one weight of the first layer's q matrix: behind its 32 row scales.
    offset = section(package, "layers.0.q") + 4 * 32 + 5
    byte = (folder / "model.bin").read_bytes()[offset]
    patch_model(folder, offset, bytes([byte ^ 1]))
    failed = fails(folder)
    assert "greedy generation to the end of the context" in failed
    assert "checksums of model.bin" not in failed


def test_a_damaged_model_also_fails_its_checksum(make: Make) -> None:
    folder, package = made(make)
    raw = bytearray((folder / "model.bin").read_bytes())
    raw[section(package, "layers.1.experts.3.down") + 200] ^= 0x10
    (folder / "model.bin").write_bytes(raw)
    assert "checksums of model.bin" in fails(folder)


def test_one_changed_scale(make: Make) -> None:
    folder, package = made(make)
    offset = section(package, "head") + 4 * 17
    (scale,) = struct.unpack_from("<f", (folder / "model.bin").read_bytes(), offset)
    patch_model(folder, offset, np.nextafter(np.float32(scale), np.float32(1)).tobytes())
    assert "greedy generation to the end of the context" in fails(folder)


def test_gate_and_up_swapped(make: Make) -> None:
    folder, _ = made(make)
    source = folder / "src/model.c"
    text = source.read_text()
    swapped, count = re.subn(r"(linear_w8a8_\w+x48x32\()expert_(gate|hidden)", lambda m: m[1] + {
        "gate": "expert_hidden", "hidden": "expert_gate"}[m[2]], text)  # fmt: skip
    assert count == 4  # two in the function for one row, two in that for four
    source.write_text(swapped)
    assert "greedy generation to the end of the context" in fails(folder)


def test_a_tie_turned(make: Make, tied_checkpoint: Path) -> None:
    folder, _ = made(make, tied_checkpoint)
    assert fails(folder) == []
    router = folder / "runtime/kernels/avx2/router.h"
    own, other = "places", "_mm256_set1_epi32((int32_t)(first + j))"
    patch_text(router, f"_mm256_cmpgt_epi32({own}, {other})", f"_mm256_cmpgt_epi32({other}, {own})")
    assert "greedy generation to the end of the context" in fails(folder)


def test_one_expert_index_shifted(make: Make) -> None:
    folder, _ = made(make)
    source = folder / "src/model.c"
    text = source.read_text()
    first = re.search(r"\.experts = \{([\d, ]+)\}", text)
    assert first is not None
    offsets = first[1].split(", ")
    source.write_text(text.replace(first[1], ", ".join([offsets[1], *offsets[1:]]), 1))
    assert "greedy generation to the end of the context" in fails(folder)


def test_every_emulator_is_tried(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first has a processor without the instructions of the board; the second still says what it has to."""
    board = tmp_path / "mine.toml"
    entry = '[[emulators]]\nname = "{}"\nkind = "{}"\nproves = "{}"\n{}'
    qemu = 'program = "qemu-x86_64"\nargs = ["-cpu", "core2duo"]\n'
    emulators = entry.format("old", "qemu-user", "isa", qemu) + entry.format("native", "native", "machine", "")
    board.write_text(f'inherits = "x86-64-v3"\n{emulators}')
    folder, _ = make(EXAMPLES / "load-moe/top1-e4", str(board))
    assert main(["test", str(folder)]) == 7
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert re.match(r"old +FAILED: mine on old: ", first) and re.match(r"native +equal: ", second)
    assert err == f"colibri: {folder}: no result from old\n"
    assert main(["test", str(folder), "--json"]) == 7
    results = json.loads(capsys.readouterr().out)
    assert [one["failure"] is None for one in results] == [False, True]
    old, native = check_package(folder)
    assert (old.passed, native.passed, old.outputs) == (False, True, 0)


def test_json_says_what_differs(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder, package = made(make)
    offset = section(package, "head") + 4 * 160 + 3
    byte = (folder / "model.bin").read_bytes()[offset]
    patch_model(folder, offset, bytes([byte ^ 4]))
    assert main(["test", str(folder), "--emulator", "native", "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)
    assert result["emulator"] == "native"
    assert result["mismatches"][0]["case"] == "prompt of 1 tokens"
    assert result["mismatches"][0]["what"].startswith("1 of 160 outputs differ, first [0]: ")


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("access", "plain", "finding"),
    [
        # The board's SRAM ends there; the emulated chip has 64 KB more.
        ("0x20020000", 0, r"outside the board's memory: \d+ accesses, first of 4 bytes at 0x20020000 from add_12"),
        # The test program lets the core trap it.
        ("((uintptr_t)x | 2)", 7, r"unaligned access at 0x8[0-9a-f]+ in add_12\+"),
    ],
    ids=["outside", "unaligned"],
)
def test_an_access_that_the_board_must_not_make(
    make: Make, access: str, plain: int, finding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The outputs are right all the same: only the check of memory, or a trap, tells."""
    folder, _ = make(EXAMPLES / "load-moe/top1-e3-tiny", "stm32f405", Options())
    read = f"    (void)*(const volatile uint32_t *){access};\n"
    first = "    const float *const end"
    patch_text(folder / "runtime/kernels/dsp/add.h", first, f"{read}{first}")
    assert main(["test", str(folder)]) == plain
    assert main(["test", str(folder), "--check-memory"]) == (plain or 1)
    said = capsys.readouterr()
    assert re.search(finding, said.out + said.err)


# ---- floats that are not computed as they must be ----


def arithmetic_of(folder: Path, emulator: str) -> str:
    (result,) = check_package(folder, emulators=(emulator,), instructions=True)
    (mismatch,) = result.mismatches
    assert mismatch.case == "float arithmetic"
    assert main(["test", str(folder), "--emulator", emulator]) == 1
    return mismatch.what


@pytest.mark.emulator
@pytest.mark.parametrize(("board", "emulator"), [("x86-64-v3", "native"), ("stm32f405", "netduinoplus2")])
def test_fused_multiply_add(board: str, emulator: str, make: Make) -> None:
    folder, _ = make(EXAMPLES / "load-moe/top1-e4", board)
    patch_text(folder / "build.ninja", "-ffp-contract=off", "-ffp-contract=fast")
    assert arithmetic_of(folder, emulator) == "a * b + c is fused and rounds once: compile with -ffp-contract=off"


@pytest.mark.parametrize(
    ("control", "what"), [("0x9F80", "denormals become zero"), ("0x1FC0", "denormals"), ("0x5F80", "results are not")]
)
def test_modes_of_the_fpu(control: str, what: str, make: Make) -> None:
    folder, _ = make(EXAMPLES / "load-moe/top1-e4")
    patch_text(folder / "port/posix/port.c", "/* the system decides. */", f"__builtin_ia32_ldmxcsr({control});")
    assert arithmetic_of(folder, "native").startswith(what)


@pytest.mark.parametrize("option", ["-ffast-math", "-freciprocal-math", "-fno-signed-zeros", "-ffinite-math-only"])
def test_options_that_macros_show_do_not_compile(option: str, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = make(EXAMPLES / "load-moe/top1-e4")
    patch_text(folder / "build.ninja", "-ffp-contract=off", f"-ffp-contract=off {option}")
    assert main(["test", str(folder), "--emulator", "native"]) == 6
    assert "compile without -ffast-math and all parts of it" in capsys.readouterr().err


# ---- accesses next to what the caller passes ----


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("board", "checkpoint"),
    [("x86-64-v3", EXAMPLES / "load-moe/top1-e4"), ("raspberry-pi-5", ORACLE / "mixtral-base")],
    ids=["samples", "tokens"],
)
@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("((volatile uint8_t *)memory)[memory_bytes] = 1;", True),
        ("(void)((volatile uint8_t *)memory)[memory_bytes + 63];", True),
        ("((volatile uint8_t *)memory)[memory_bytes - 1] = 1;", False),
    ],
)
def test_an_access_behind_the_memory_block(planted: str, found: bool, board: str, checkpoint: Path, make: Make) -> None:
    options = Options(context=16) if checkpoint.is_relative_to(ORACLE) else Options()
    folder, package = make(checkpoint, board, options)
    patch_text(folder / "src/model.c", "    *context = c;\n", f"    *context = c;\n    {planted}\n")
    emulator = next(one.name for one in package.board.emulators if one.kind is EmulatorKind.QEMU_USER)
    (result,) = check_package(folder, emulators=(emulator,))
    assert result.passed
    (result,) = check_package(folder, emulators=(emulator,), check_memory=True)
    assert [mismatch.case for mismatch in result.mismatches] == ["memory, outside the board's memory"] * found
    assert not found or f"from {package.prefix}_init+" in result.mismatches[0].what


@pytest.mark.emulator
def test_an_access_behind_the_outputs(make: Make) -> None:
    folder, _ = make(EXAMPLES / "load-moe/top1-e4")
    before = "    canonicalise(outputs, "
    planted = "    ((volatile float *)outputs)[TOP1_E4_OUTPUTS] = 0.0f;\n"
    patch_text(folder / "src/model.c", before, planted + before)
    (result,) = check_package(folder, emulators=("qemu-x86_64",), check_memory=True)
    assert [mismatch.case for mismatch in result.mismatches] == ["memory, outside the board's memory"]
