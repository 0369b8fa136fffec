"""runtime_c/SPEC.md against generated files: parsed by the page's tables alone, and damaged byte by byte."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_models import loaded

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.generate import build_graph, generate
from colibri.graph.coding import Coding
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Matrix
from colibri.options import Options
from colibri.package import Package
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import plan_layouts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runtime_c/SPEC.md").read_text(encoding="utf-8")
NONE = 0xFFFFFFFF
MODELS = [
    ("load-moe/top1-e3-tiny", Scheme.F32),
    ("load-moe/top2-e4-norm", Scheme.W8A8),
    ("load-moe/top1-e4", Scheme.W4A16),
    ("shakespeare-moe", Scheme.W4A8),
    ("gptoss-mxfp4", Scheme.W4A8),
    *(("load-moe/top1-e4", Scheme.parse(text)) for text in ("w3g64a8+o5", "w6za16", "w2a8", "w5g128a8+o50", "f16")),
]


def checkpoint_of(model: str) -> Path:
    """Folder of an example, or of a variant among the oracles."""
    return next(path for path in (ROOT / "examples" / model, ROOT / "tests/oracle/variants" / model) if path.is_dir())


def record(title: str) -> struct.Struct:
    """Struct of the page's table under a heading; its offsets must be gapless."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (bytes|u32|u64) \|", section, re.M)
    form, at = "<", 0
    for offset, size, kind in rows:
        assert int(offset) == at
        at += int(size)
        form += f"{size}s" if kind == "bytes" else {"u32": "I", "u64": "Q"}[kind]
    made = struct.Struct(form)
    assert made.size == at
    return made


HEADER, SECTION = record("Header"), record("Section")


@dataclass(frozen=True)
class Entry:
    """One row of the section table."""

    start: int
    length: int
    crc: int
    kind: int
    layer: int
    expert: int


@dataclass(frozen=True)
class Parsed:
    """A file as the page describes it."""

    abi_hash: bytes
    entries: tuple[Entry, ...]


def parse(data: bytes) -> Parsed:
    """Read a file and check every rule of the page that needs no knowledge of the model."""
    magic, version, header_bytes, file_bytes, table, count, table_crc, abi_hash, reserved, crc = HEADER.unpack(
        data[:64]
    )
    assert (magic, version, header_bytes, reserved) == (b"COLIBRI\0", 2, 64, 0)
    assert file_bytes == len(data) and len(data) % 16 == 0 and table == HEADER.size == 64
    assert crc == zlib.crc32(data[:60])
    raw = data[table : table + count * SECTION.size]
    assert table_crc == zlib.crc32(raw)
    entries = tuple(Entry(*values) for values in SECTION.iter_unpack(raw))
    at = table + len(raw)
    for entry in entries:
        padding = data[at : entry.start]
        assert entry.start == -(-at // 16) * 16 and not any(padding)
        at = entry.start + entry.length
        assert entry.crc == zlib.crc32(data[entry.start : at])
    assert len(data) == -(-at // 16) * 16 and not any(data[at:])
    assert [entry.kind for entry in entries].count(3) == 1 and entries[-1].kind == 3
    assert all((entry.expert != NONE) == (entry.kind == 2) for entry in entries)
    return Parsed(abi_hash, entries)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    @cache
    def make(model: str, scheme: Scheme, rows: int = 1, board: str = "x86-64-v3") -> tuple[Path, Package]:
        folder = tmp_path_factory.mktemp("spec") / "package"
        tokens = not model.startswith("load-moe")
        options = Options(
            scheme,
            StateType.F32,
            batch=None if tokens else rows,
            prefill=rows if tokens else None,
            context=16 if tokens else None,
            drop={0: {1}},
        )
        return folder, generate(checkpoint_of(model), load_board(board), options, folder)

    return make


@pytest.mark.parametrize(("model", "scheme"), MODELS)
def test_the_file_is_as_the_page_says(made, model: str, scheme: Scheme) -> None:  # type: ignore[no-untyped-def]
    folder, package = made(model, scheme)
    data = (folder / "model.bin").read_bytes()
    parsed = parse(data)
    assert parsed.abi_hash.hex() == package.abi_hash
    manifest = json.loads(data[parsed.entries[-1].start :][: parsed.entries[-1].length])
    assert {"name", "family", "scheme", "routing", "experts", "recipe", "generator"} <= set(manifest)
    experts = [(entry.layer, entry.expert) for entry in parsed.entries if entry.kind == 2]
    assert experts == [(layer, expert) for layer, kept in enumerate(manifest["experts"]) for expert in kept]
    assert 1 not in manifest["experts"][0] and 2 in manifest["experts"][0]


@pytest.mark.parametrize("board", ["x86-64-v3", "stm32f405", "raspberry-pi-5"])
@pytest.mark.parametrize(("model", "scheme"), MODELS)
def test_matrices_lie_as_the_page_says(made, model: str, scheme: Scheme, board: str) -> None:  # type: ignore[no-untyped-def]
    """Unpack every matrix from the file by the page's rules and compare it with the graph."""
    folder, package = made(model, scheme, board=board)
    data = (folder / "model.bin").read_bytes()
    places = {section.name: section for section in package.sections}
    context = None if model.startswith("load-moe") else 16
    graph = build_graph(Checkpoint.open(checkpoint_of(model)), Options(scheme, context=context, drop={0: {1}}))
    layouts = plan_layouts(graph, KernelSet(package.board.kernels))
    assert set(graph.weights) <= set(places)
    for name, weight in loaded(graph).items():
        raw = data[places[name].offset : places[name].offset + places[name].bytes]
        assert places[name].offset % 16 == 0
        if not isinstance(weight, Matrix):
            found = np.frombuffer(raw, "<f4", weight.values.size).reshape(weight.values.shape)
            np.testing.assert_array_equal(found, weight.values)
            continue
        layout = layouts.matrices[name]
        tile = layout.tile_rows, layout.tile_cols
        parts = unpack(raw, weight.coding, weight.shape, weight.bias is not None, tile, layout.order)
        expected = {
            "row_scale": weight.row_scale,
            "bias": weight.bias,
            "factors": weight.group_scale,
            "zeros": weight.zeros,
            "columns": weight.tail_columns,
            "tail": weight.tail,
            "data": weight.dense if weight.dense is not None else weight.integers,
        }
        for part, values in expected.items():
            assert (part in parts) == (values is not None), (name, part)
            if values is not None:
                np.testing.assert_array_equal(parts[part], values, err_msg=f"{name} {part}")


def unpack(
    raw: bytes, coding: Coding, shape: tuple[int, int], has_bias: bool, tile: tuple[int, int], order: str = ""
) -> dict[str, np.ndarray]:
    """Parts of a matrix, padding taken off."""
    (n, k), (rows, cols), form = shape, tile, str(coding.format)
    big_n, big_k = -(-n // rows) * rows, -(-k // cols) * cols
    parts: dict[str, np.ndarray] = {}
    at = 0

    def take(count: int, dtype: str) -> np.ndarray:
        nonlocal at
        values = np.frombuffer(raw, dtype, count, at)
        at += -(-values.nbytes // 16) * 16
        return values

    def across(columns: int, dtype: str) -> np.ndarray:
        return take(big_n * columns, dtype).reshape(-1, columns, rows).transpose(0, 2, 1).reshape(big_n, -1)[:n]

    in_groups = form in ("w2", "w3", "w4", "w5", "w6", "fp4")
    if in_groups:
        parts["row_scale"] = (take(big_n, "<u2")[:n].astype(np.uint32) << 16).view(np.float32)
    elif form == "w8":
        parts["row_scale"] = take(big_n, "<f4")[:n]
    if has_bias:
        parts["bias"] = take(big_n, "<f4")[:n]
    if in_groups:
        groups, used = -(-big_k // coding.group), -(-k // coding.group)
        parts["factors"] = across(groups, "u1" if form == "fp4" else "i1")[:, :used]
        if coding.zero:
            parts["zeros"] = across(groups, "u1")[:, :used]
        if coding.outliers:
            count = -(-k * coding.outliers // 100)
            parts["columns"] = take(count, "<u2")
            parts["tail"] = across(count, "i1")
    if order == "plus128":
        tiles = take(big_n * big_k, "u1").reshape(big_n // rows, big_k // cols, rows, cols) - np.int32(128)
    elif order == "lanes":
        parcels = take(big_n * big_k // 2, "u1").reshape(big_n // rows, big_k // 32, 4, rows, 4).astype(np.int32)
        both = parcels.transpose(0, 1, 3, 2, 4).reshape(big_n // rows, big_k // 32, rows, 16)
        tiles = np.concatenate([both & 15, both >> 4], axis=3) - 8
    elif order:
        assert rows == 4
        both = take(big_n * big_k * coding.format.bits // 16, "<u2").astype(np.int32)
        if order == "pairs":
            first = (both & 255 ^ 128) - 128
            pair = np.stack([first, (((both - first) >> 8) + 128 & 255) - 128])
            tiles = pair.reshape(2, big_n // 4, big_k // cols, cols // 2, 2, 2).transpose(1, 2, 4, 0, 3, 5)
        else:
            quad = np.stack([(both >> 4 * row & 15 ^ (8 if row == 3 else 0)) - 8 for row in range(4)])
            tiles = quad.reshape(4, big_n // 4, big_k // cols, cols).transpose(1, 2, 0, 3)
    elif in_groups:
        bits, tiles, done = coding.format.bits, np.zeros((big_n // rows, big_k // 32, rows, 32), np.int32), 0
        packed = take(big_n * big_k * bits // 8, "u1").reshape(big_n // rows, big_k // 32, -1)
        for plane in {2: [2], 3: [2, 1], 4: [4], 5: [4, 1], 6: [4, 2]}[bits]:
            start, each = rows * 4 * done, 4 * plane
            own = packed[:, :, start : start + rows * each].reshape(*tiles.shape[:3], each)
            for step in range(8 // plane):
                tiles[..., step * each : (step + 1) * each] |= (own >> plane * step & (1 << plane) - 1) << done
            done += plane
        if form == "fp4":
            magnitudes = np.array([0, 1, 2, 3, 4, 6, 8, 12])  # of floats of 4 bits, doubled
            tiles = magnitudes[tiles & 7] * (1 - (tiles >> 3) * 2)
        elif not coding.zero:
            tiles -= 1 << bits - 1
    else:
        tiles = take(big_n * big_k, {"f32": "<f4", "f16": "<f2", "w8": "i1"}[form])
    whole = tiles.reshape(big_n // rows, big_k // cols, rows, cols).transpose(0, 2, 1, 3).reshape(big_n, big_k)
    assert not whole[n:].any() and not whole[:, k:].any()
    parts["data"] = whole[:n, :k]
    assert at == len(raw)
    return parts


def test_the_abi_hash_covers_shapes_and_no_weights(made) -> None:  # type: ignore[no-untyped-def]
    folder, package = made("load-moe/top2-e4-norm", Scheme.W8A8)
    wider, again = made("load-moe/top2-e4-norm", Scheme.W8A8, rows=3)
    assert again.abi_hash == package.abi_hash
    assert (wider / "model.bin").read_bytes() == (folder / "model.bin").read_bytes()
    _, other = made("load-moe/top2-e4-norm", Scheme.W8A16)
    assert other.abi_hash != package.abi_hash
    assert len(package.abi_hash) == 2 * (hashlib.sha256().digest_size // 2)


CHECKER = """
#include <stdio.h>
#include <stdlib.h>
#include "model.h"

/* file, bytes to pass, shift of the address: prints the status of check and of verify. */
int main(int count, char **arguments)
{
    static _Alignas(16) uint8_t bytes[1 << 16];
    FILE *file = fopen(arguments[1], "rb");
    const size_t shift = (size_t)atoi(arguments[3]);
    if (count != 4 || file == NULL || fread(bytes + shift, 1, sizeof bytes - shift, file) == 0) {
        return 1;
    }
    const size_t length = (size_t)atoi(arguments[2]);
    const void *model = bytes + shift;
    printf("%d %d", colibri_check(&spec_model, model, length), colibri_verify(&spec_model, model, length));
    return 0;
}
"""
STATUS = {
    name: int(value)
    for name, value in re.findall(
        r"X\((COLIBRI_\w+), (-?\d+),", (ROOT / "runtime_c/include/colibri.h").read_text(encoding="utf-8")
    )
}


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Compile the checks with a model; returns its file, and a function to the names of both statuses."""
    folder = tmp_path_factory.mktemp("checker")
    package = folder / "package"
    board = msgspec.structs.replace(load_board("x86-64-v3"), kernels=("portable",))
    generate(ROOT / "examples/load-moe/top1-e3-tiny", board, Options(prefix="spec"), package)
    (folder / "checker.c").write_text(CHECKER)
    sources = [folder / "checker.c", package / "src/model.c", *sorted((package / "runtime/core").glob("*.c"))]
    include = [f"-I{package / part}" for part in (".", "runtime/include", "runtime")]
    program = folder / "checker"
    subprocess.run(["gcc", "-std=c11", "-O1", *include, *map(str, sources), "-o", str(program)], check=True)
    names = {value: name for name, value in STATUS.items()}

    def run(data: bytes, length: int | None = None, shift: int = 0) -> tuple[str, str]:
        path = folder / "model.bin"
        path.write_bytes(data)
        length = len(data) if length is None else length
        done = subprocess.run([program, path, str(length), str(shift)], check=True, capture_output=True, text=True)
        check, verify = (names[int(word)] for word in done.stdout.split())
        return check, verify

    return (package / "model.bin").read_bytes(), run


def sealed(data: bytearray) -> bytes:
    """With the checksums of header and table made right again."""
    count = struct.unpack_from("<I", data, 32)[0]
    if 64 + 32 * count <= len(data):
        struct.pack_into("<I", data, 36, zlib.crc32(data[64 : 64 + 32 * count]))
    struct.pack_into("<I", data, 60, zlib.crc32(data[:60]))
    return bytes(data)


def changed(data: bytes, at: int, form: str, value: int, *, seal: bool = True) -> bytes:
    copy = bytearray(data)
    struct.pack_into(form, copy, at, value)
    return sealed(copy) if seal else bytes(copy)


def stated(number: int) -> str:
    """The status that the page gives to a check."""
    row = re.search(rf"^\| {number} \| .* \| `(COLIBRI_\w+)` \|$", PAGE, re.M)
    assert row is not None
    return row[1]


def test_the_checks_of_the_page(checker) -> None:  # type: ignore[no-untyped-def]
    data, run = checker
    assert run(data) == ("COLIBRI_OK", "COLIBRI_OK")
    assert run(data + bytes(64)) == ("COLIBRI_OK", "COLIBRI_OK")
    first = struct.unpack_from("<Q", data, 64)[0]
    cases = {
        2: (data, len(data), 4),
        3: (data, 63, 0),
        4: (changed(data, 0, "<B", 0x44), len(data), 0),
        5: (changed(data, 8, "<I", 3), len(data), 0),
        6: (changed(data, 56, "<I", 1, seal=False), len(data), 0),
        7: (changed(data, 40, "<B", data[40] ^ 1), len(data), 0),
        8: (changed(data, 16, "<Q", len(data) + 1), len(data), 0),
        9: (changed(data, 16, "<Q", first), len(data), 0),
        10: (changed(data, 36, "<I", 0, seal=False), len(data), 0),
        11: (changed(data, 64, "<Q", len(data)), len(data), 0),
    }
    # A checksum of the table that is wrong, under a header that is right.
    wrong = bytearray(cases[10][0])
    struct.pack_into("<I", wrong, 60, zlib.crc32(wrong[:60]))
    cases[10] = (bytes(wrong), len(data), 0)
    for number, (file, length, shift) in cases.items():
        assert run(file, length, shift) == (stated(number), stated(number)), f"check {number}"
    assert run(changed(data, 12, "<I", 60))[0] == stated(6)
    assert run(changed(data, 24, "<Q", len(data) + 16))[0] == stated(9)
    assert run(changed(data, 32, "<I", 1 << 20))[0] == stated(9)
    most = (len(data) - 64) // 32
    assert run(changed(data, 32, "<I", most + 1))[0] == stated(9) != run(changed(data, 32, "<I", most))[0]
    assert run(changed(data, first, "<B", data[first] ^ 1)) == ("COLIBRI_OK", stated(12))


def test_earlier_checks_win(checker) -> None:  # type: ignore[no-untyped-def]
    data, run = checker
    worse = bytearray(changed(data, 8, "<I", 3, seal=False))
    worse[40] ^= 1
    assert run(bytes(worse))[0] == stated(5)
    worse[0] ^= 1
    assert run(bytes(worse))[0] == stated(4)
    assert run(bytes(worse), 60)[0] == stated(3)


def test_a_changed_byte_of_any_section_is_found(checker) -> None:  # type: ignore[no-untyped-def]
    data, run = checker
    for entry in parse(data).entries:
        for at in (entry.start, entry.start + entry.length - 1):
            assert run(changed(data, at, "<B", data[at] ^ 0x40)) == ("COLIBRI_OK", stated(12)), entry
