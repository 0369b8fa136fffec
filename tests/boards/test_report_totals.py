"""The report against binutils, byte for byte, with both demo models."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make
from selection import ROOMY, TELLING, with_elf

from colibri.boards.profile import BoardKind, Holds
from colibri.footprint.attribute import GroupKind
from colibri.footprint.foreign import report_on_elf
from colibri.footprint.linker import parse_usage
from colibri.footprint.report import Part, Report, make_report
from colibri.generate import Options
from colibri.package import Package
from colibri.passes.quantise import Scheme
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import product_targets

_DEBUG = re.compile(r"^\.(debug|comment|ARM\.attributes|riscv\.attributes|note\.gnu\.build-attributes)")


def binutils(package: Package, tool: str, *arguments: str | Path) -> str:
    command = [package.board.toolchain.prefix + tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def parts(report: Report, *names: str) -> int:
    """Bytes of the rows right below a group whose names begin so."""
    groups = [group for region in report.regions for group in region.groups]
    return sum(part.bytes for group in groups for part in group.parts if part.name.startswith(names))


def names(rows: tuple[Part, ...]) -> Iterator[str]:
    """Of the rows and of all below them."""
    for row in rows:
        yield row.name
        yield from names(row.parts)


def sections(package: Package, elf: Path) -> dict[str, tuple[int, int]]:
    """Bytes and address of each section that takes memory, as `size -A` prints them."""
    rows = re.findall(r"^(\S+)\s+(\d+)\s+(\d+)$", binutils(package, "size", "-A", elf), re.MULTILINE)
    # Thread-local zeros have an address but no memory of the program's own.
    return {name: (int(size), int(at)) for name, size, at in rows if not _DEBUG.match(name) and name != ".tbss"}


def check_bare(report: Report, package: Package, elf: Path, tmp_path: Path) -> None:
    usage = parse_usage(elf.with_suffix(".usage").read_text())
    assert {region.name: region.used for region in report.regions} == usage
    homes = {what: package.board.region_for(what).name for what in (Holds.CODE, Holds.WEIGHTS)}
    raw, apart = tmp_path / "image.bin", homes[Holds.CODE] != homes[Holds.WEIGHTS]
    # A raw image spans the gap between two kinds of flash, so each gets its own.
    binutils(package, "objcopy", "-O", "binary", *(["-R", ".model"] if apart else []), elf, raw)
    assert usage[homes[Holds.CODE]] == raw.stat().st_size == (elf.with_suffix(".bin")).stat().st_size
    if apart:
        binutils(package, "objcopy", "-O", "binary", "-j", ".model", elf, raw)
        listed = sections(package, elf)
        assert usage[homes[Holds.WEIGHTS]] == raw.stat().st_size == listed[".model"][0] == package.model_bin_bytes
        assert raw.read_bytes() == (elf.parents[1] / "model.bin").read_bytes()
    placed = [(at, at + size) for size, at in sections(package, elf).values() if size]
    for region in (one for one in report.regions if one.name not in homes.values()):
        ends = [end for at, end in placed if region.origin <= at < region.origin + region.length]
        assert region.used == max(ends, default=region.origin) - region.origin


def check_linux(report: Report, package: Package, elf: Path) -> None:
    loads = re.findall(
        r"^\s*LOAD\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)\s+(.{3})\s", binutils(package, "readelf", "-lW", elf), re.M
    )
    image, ram = report.regions
    assert image.used == sum(int(size, 16) for size, flags in loads if "W" not in flags)
    assert ram.used == sum(int(size, 16) for size, flags in loads if "W" in flags)


@pytest.mark.parametrize(
    ("board", "model", "options"),
    [
        *((board, "load-moe/top1-e4", Options()) for board in with_elf(TELLING)),
        *((board, "shakespeare-moe", Options(Scheme.W4A8, context=32, drop=PRUNED)) for board in with_elf(ROOMY)),
        # Memory in two blocks.
        ("nucleo-h743zi", "shakespeare-moe", Options(Scheme.W4A8, prefill=8)),
    ],
)
def test_totals_are_those_of_binutils(board: str, model: str, options: Options, make: Make, tmp_path: Path) -> None:
    folder, package = make(EXAMPLES / model, board, options)
    assert len(package.memory.blocks) == (2 if options.prefill else 1)
    build(folder, product_targets(package.board, package.board.toolchain.family))
    elf = folder / "build/product.elf"
    report = make_report(folder)
    alone = report_on_elf(elf)

    for one in (report, alone):
        for region in one.regions:
            assert sum(group.bytes for group in region.groups) == region.used
        listed = sum(size for size, _ in sections(package, elf).values())
        outside = parts(one, "between sections", "load image", "ELF header", "no section")
        assert sum(region.used for region in one.regions) - outside == listed
    if package.board.kind is BoardKind.BARE:
        check_bare(report, package, elf, tmp_path)
    else:
        check_linux(report, package, elf)

    # On its own the program says the same of each region, of the weights and of the block.
    assert {one.name: one.used for one in alone.regions} == {one.name: one.used for one in report.regions}
    weights = [group for region in alone.regions for group in region.groups if group.kind is GroupKind.WEIGHTS]
    assert sum(group.bytes for group in weights) == sum(length for _, length, _ in package.weight_files())
    blocks = [group for region in alone.regions for group in region.groups if group.kind is GroupKind.ARENA]
    assert sum(group.bytes for group in blocks) == package.memory.total
    # Two files of weights have a row each, above their layers.
    experts = [name for group in weights for name in names(group.parts) if re.fullmatch(r"expert \d+", name)]
    assert len(experts) == sum(package.model.experts)
