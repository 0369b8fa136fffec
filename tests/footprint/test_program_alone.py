"""Reports on ELF files without their package: Colibri's own, everybody else's, and damaged ones."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import MemoryKind
from colibri.cli import main
from colibri.emit.model_bin import MAGIC, VERSION
from colibri.errors import BadInput
from colibri.footprint.attribute import GroupKind
from colibri.footprint.diff import compare, leaves
from colibri.footprint.foreign import report_on_elf
from colibri.footprint.report import Report, make_report
from colibri.footprint.sources import read_alike
from colibri.generate import generate
from colibri.options import Options
from colibri.package import load_package
from colibri.toolchain.build import build

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load forecaster for an STM32F405, built."""
    folder = tmp_path_factory.mktemp("alone") / "package"
    generate(ROOT / "examples/load-moe/top1-e4", load_board("stm32f405"), Options(drop={0: {2}}), folder)
    build(folder, ["build/product.elf"])
    return folder


def rows(report: Report, kind: GroupKind) -> dict[str, int]:
    return {
        " / ".join((part.name, inner.name)): inner.bytes
        for region in report.regions
        for group in region.groups
        if group.kind is kind
        for part in group.parts
        for inner in (part.parts or (part,))
    }


def link(tmp_path: Path, assembler: str, *flags: str) -> Path:
    (tmp_path / "a.S").write_text(assembler)
    command = ["gcc", "-nostdlib", "-static", "-Wl,--build-id=none", *flags, "a.S", "-o", "a.elf"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "a.elf"


def regions(**ends: tuple[int, int]) -> str:
    lines = []
    for name, (origin, length) in ends.items():
        lines += [f".global colibri_region_{name}_origin, colibri_region_{name}_length"]
        lines += [f"colibri_region_{name}_origin = {origin}", f"colibri_region_{name}_length = {length}"]
    return "\n".join((*lines, ".text", ".global _start", "_start: nop", ""))


def model(package: Path, prefix: str = "demo") -> str:
    return f'.section .rodata\n.balign 16\n.global {prefix}_bin\n{prefix}_bin:\n.incbin "{package}/model.bin"\n'


def test_the_program_says_what_its_package_says(package: Path) -> None:
    alone, whole = report_on_elf(package / "build/product.elf"), make_report(package)
    assert (alone.package, alone.scheme, alone.board, alone.linked) == (whole.package, "w8a8", "", True)
    facts = {one.name: (one.kind, one.origin, one.length, one.used) for one in whole.regions}
    assert {one.name: (one.kind, one.origin, one.length, one.used) for one in alone.regions} == facts
    ours, theirs = rows(alone, GroupKind.WEIGHTS), rows(whole, GroupKind.WEIGHTS)
    experts = {name: size for name, size in theirs.items() if "expert" in name}
    assert {name: size for name, size in ours.items() if "/ expert " in name} == experts
    assert set(experts) == {f"layer 0 / expert {index}" for index in (0, 1, 3)}
    assert "model / top1_e4_forward" in rows(alone, GroupKind.CODE)
    assert all(group.predicted is None for region in alone.regions for group in region.groups)


def test_compared_with_its_package_nothing_changed(package: Path, tmp_path: Path) -> None:
    elf, report = package / "build/product.elf", tmp_path / "report.json"
    assert read_alike(package, elf) == report_on_elf(elf)
    report.write_bytes(make_report(package).to_json())
    diff = compare(read_alike(report, elf), report_on_elf(elf))
    changed = {row.group: row.path for region in diff.regions for row in leaves(region) if row.delta}
    # The linker's map tells alignment from what it aligns, symbols do not: it only moves between these.
    assert set(changed) <= {GroupKind.CODE, GroupKind.TABLES, GroupKind.DATA, GroupKind.PADDING}
    assert set(changed.values()) <= {()} and all(region.delta == 0 for region in diff.regions)


def test_each_of_several_memory_blocks_is_found(spread: Path, tmp_path: Path) -> None:
    elf, blocks = spread / "build/product.elf", load_package(spread).memory.blocks
    assert len(blocks) == 2
    alone = report_on_elf(elf)
    found = {one.name: group for one in alone.regions for group in one.groups if group.kind is GroupKind.ARENA}
    assert {name: group.bytes for name, group in found.items()} == {block.region: block.total for block in blocks}
    assert {part.name for group in found.values() for part in group.parts} == {"memory block"}
    most = max(blocks, key=lambda block: block.total)
    (tmp_path / "budget.toml").write_text(f"[{most.region}.arena]\nfail = {most.total - 1}\n")
    assert main(["report", str(elf), "--budget", str(tmp_path / "budget.toml")]) == 3


def test_both_files_of_a_model_are_one_model(spread: Path, package: Path, tmp_path: Path) -> None:
    alone, whole = report_on_elf(spread / "build/product.elf"), make_report(spread)
    assert alone.package == whole.package == "shakespeare-moe"
    hot = load_package(spread).hot_weights
    assert hot is not None
    weights = {one.name: group for one in alone.regions for group in one.groups if group.kind is GroupKind.WEIGHTS}
    assert weights[hot.region].bytes == hot.bytes and len(weights) == 2
    assert any(part.name == "layer 0" for group in weights.values() for part in group.parts)
    for group in weights.values():
        assert {part.name for part in group.parts} >= {"header and table", "manifest"}
    # A name alone makes no second file.
    start = ".text\n.global _start\n_start: nop\n"
    text = f'.section .rodata\n.balign 16\n.global a_hot_bin\na_hot_bin:\n.incbin "{spread}/hot.bin"\n'
    assert report_on_elf(link(tmp_path, text + model(package, "a") + start)).package == "shakespeare-moe, top1-e4"


def test_a_program_in_several_regions_compared_with_its_package(spread: Path) -> None:
    elf = spread / "build/product.elf"
    saved, alone = make_report(spread), report_on_elf(elf)
    for old, new in ((saved, alone), (alone, saved)):
        diff = compare(old, new)
        assert all(region.delta == 0 for region in diff.regions)
        changed = {row.group for region in diff.regions for row in leaves(region) if row.delta}
        assert changed <= {GroupKind.CODE, GroupKind.TABLES, GroupKind.DATA, GroupKind.PADDING}


def test_blocks_of_models_with_similar_prefixes(tmp_path: Path, package: Path) -> None:
    names = {"a_memory": 16, "a_memory_fast": 32, "a_memory_memory": 64, "a_memory_memory_fast": 128, "a_memorial": 256}
    block = "".join(f".type {one},@object\n{one}: .space {size}\n.size {one},{size}\n" for one, size in names.items())
    start = ".text\n.global _start\n_start: nop\n"
    # One manifest with another name of the same length, so that the rows differ.
    other = tmp_path / "other"
    other.mkdir()
    raw = (package / "model.bin").read_bytes()
    (other / "model.bin").write_bytes(raw.replace(b'"top1-e4"', b'"top9-e4"'))
    elf = link(tmp_path, model(package, "a") + model(other, "a_memory") + ".bss\n.balign 16\n" + block + start)
    report = report_on_elf(elf)
    assert rows(report, GroupKind.ARENA) == {"top9-e4 / memory block": 192, "top1-e4 / memory block": 48}
    assert rows(report, GroupKind.DATA)[".bss / model"] == 256


def test_oversize_image(tmp_path: Path, package: Path) -> None:
    elf = link(tmp_path, regions(flash=(0x400000, 0x3000), ram=(0x10000000, 64)) + model(package))
    report = report_on_elf(elf)
    assert not report.linked and report.over() == [("flash", report.regions[0].used - 0x3000)]
    assert main(["report", str(elf)]) == 3


def test_zero_sized_regions(tmp_path: Path, package: Path) -> None:
    elf = link(
        tmp_path, regions(flash=(0x400000, 0x100000), ccm=(0x10000000, 0), qspi=(0x90000000, 0)) + model(package)
    )
    found = {region.name: (region.kind, region.length, region.used) for region in report_on_elf(elf).regions}
    assert found["ccm"] == (MemoryKind.RAM, 0, 0) and found["qspi"] == (MemoryKind.FLASH, 0, 0)
    assert found["flash"][2] > (package / "model.bin").stat().st_size
    assert main(["report", str(elf)]) == 0


def test_two_models_are_kept_apart(tmp_path: Path, package: Path) -> None:
    block = ".bss\n.balign 16\n.type b_memory,@object\nb_memory: .space 640\n.size b_memory,640\n"
    elf = link(tmp_path, model(package, "a") + model(package, "b") + block + ".text\n.global _start\n_start: nop\n")
    report = report_on_elf(elf)
    assert report.package == "top1-e4, top1-e4" and report.title.startswith("by segments")
    size = sum(group.bytes for group in report.regions[0].groups if group.kind is GroupKind.WEIGHTS)
    assert size == 2 * (package / "model.bin").stat().st_size
    assert rows(report, GroupKind.ARENA) == {"top1-e4 / memory block": 640}


def test_copied_bytes_count_where_they_are_stored_and_where_they_run(tmp_path: Path, package: Path) -> None:
    script = """SECTIONS { . = 0x1000; .text : { *(.text) *(.rodata) }
        .data 0x20000000 : AT(0x80000) { *(.data) } .bss (NOLOAD) : { *(.bss) } /DISCARD/ : { *(.note*) } }"""
    (tmp_path / "own.ld").write_text(script)
    data = ".data\n.global word\n.type word,@object\nword: .space 24\n.size word,24\n.bss\n.space 8\n"
    text = ".text\n.global _start\n_start: nop\n"
    elf = link(tmp_path, text + model(package) + data, "-Wl,-Town.ld", "-Wl,-z,noseparate-code", "-Wl,-n")
    image, ram = report_on_elf(elf).regions
    copies = [part.bytes for group in image.groups for part in group.parts if part.name == "load image of .data"]
    assert copies == [24] and ram.used == 32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path, elf: path.write_text("flash is full\n"), "neither a package, nor a report in JSON, nor an ELF"),
        (lambda path, elf: path.write_bytes(b""), "neither a package"),
        (lambda path, elf: path.write_bytes(b"\x7fELF"), "not a readable ELF file"),
        (lambda path, elf: path.write_bytes(elf.read_bytes()[:3000]), "ELF file"),
        (
            lambda path, elf: subprocess.run(["arm-none-eabi-strip", str(elf), "-o", str(path)], check=True),
            "no symbols",
        ),
        (lambda path, elf: link_other(path), "neither a Colibri model nor its memory regions"),
        (lambda path, elf: shutil.copy(next((elf.parent / "library").rglob("*.o")), path), "no program headers"),
        (lambda path, elf: path.mkdir(), "not a Colibri package"),
    ],
)
def test_everything_else_is_one_line(  # type: ignore[no-untyped-def]
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], make, message: str
) -> None:
    path = tmp_path / "thing"
    make(path, package / "build/product.elf")
    assert main(["report", str(path)]) == 5
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def link_other(path: Path) -> None:
    folder = path.parent / "other"
    folder.mkdir()
    link(folder, ".text\n.global _start\n_start: nop\n.global fake_bin\nfake_bin: .space 100\n").rename(path)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (8, "model.bin of format"),
        (16, "model.bin is damaged"),
        (64, "model.bin is damaged"),
        (36, "model.bin is damaged"),
    ],
)
def test_a_damaged_model(package: Path, tmp_path: Path, offset: int, message: str) -> None:
    raw = bytearray((package / "build/product.elf").read_bytes())
    raw[raw.index(MAGIC + VERSION.to_bytes(4, "little")) + offset] ^= 0x55
    (tmp_path / "a.elf").write_bytes(raw)
    with pytest.raises(BadInput, match=message):
        report_on_elf(tmp_path / "a.elf")


def test_a_region_without_length_that_holds_something(tmp_path: Path) -> None:
    """No length is no limit to a report, and there is nothing to show of a full region of 0 bytes."""
    path = link(tmp_path, regions(rom=(0x10000, 0)), "-Wl,-Ttext=0x10000", "-Wl,--nmagic")
    with pytest.raises(BadInput, match=r"^a.elf: the length of rom is 0, and it holds 1 byte$"):
        report_on_elf(path)


def test_half_a_region(tmp_path: Path, package: Path) -> None:
    text = "colibri_region_flash_origin = 4\n.global colibri_region_flash_origin\n.text\n.global _start\n_start: nop\n"
    with pytest.raises(BadInput, match="colibri_region_flash_origin stands alone"):
        report_on_elf(link(tmp_path, text + model(package)))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_elf_files_are_bad_input_or_right(package: Path, tmp_path: Path, seed: int) -> None:
    raw = (package / "build/product.elf").read_bytes()
    (table,) = struct.unpack_from("<I", raw, 32)
    rng = random.Random(seed)
    path = tmp_path / "a.elf"
    refused = 0
    for _ in range(60):
        bad = bytearray(raw)
        for _ in range(rng.choice([1, 1, 2, 8])):
            # The file's head, its section table, and the symbols before it.
            low, high = rng.choice([(0, 300), (table, len(raw)), (table - 6000, table)])
            bad[rng.randrange(low, high)] = rng.choice([0, 1, 0xFF, rng.randrange(256)])
        path.write_bytes(bad if rng.random() < 0.9 else bad[: rng.randrange(len(bad))])
        try:
            report = report_on_elf(path)
        except BadInput:
            refused += 1
            continue
        for region in report.regions:
            assert sum(group.bytes for group in region.groups) == region.used
    assert 0 < refused < 60


def test_a_huge_file_is_measured(package: Path, tmp_path: Path) -> None:
    functions = "".join(
        f".global fn_{i}\n.type fn_{i},@function\nfn_{i}: .space 12\n.size fn_{i},12\n" for i in range(20_000)
    )
    text = f"{model(package)}.space 300000000\n.text\n{functions}.global _start\n_start: nop\n"
    elf = link(tmp_path, text)
    try:
        assert elf.stat().st_size > 300_000_000
        report = report_on_elf(elf)
    finally:
        elf.unlink()
    assert report.regions[0].used > 300_000_000
    code = next(group for group in report.regions[0].groups if group.kind is GroupKind.CODE)
    (others,) = [part for part in code.parts if part.name == "other objects"]
    assert len(others.parts) == 20_000 and others.bytes == 240_000
