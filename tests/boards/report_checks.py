"""What the report says, against what other programs say of the same image, byte for byte.

Shared by the tests, which take some boards, and `ci/report-check`, which takes all. A figure that differs is an
`AssertionError` with both.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from colibri.boards.profile import BoardKind, Holds
from colibri.footprint.groups import Part
from colibri.footprint.linker import parse_usage
from colibri.footprint.report import Report
from colibri.footprint.stack import ObservedEntry
from colibri.package import Package

TIGHT = 0.7  # of a bound, which a run has to show at least
_DEBUG = re.compile(r"^\.(debug|comment|ARM\.attributes|riscv\.attributes|note\.gnu\.build-attributes|gnu\.warning)")
_WINDOWS_PAGE = 4096


def same(what: str, reported: object, told: object) -> None:
    """Nothing when the two are equal."""
    if reported != told:
        raise AssertionError(f"{what}: the report says {reported}, not {told}")


def check_rows(report: Report) -> int:
    """Rows sum to their group, groups to their region, at every level. Returns how many rows there are."""

    def summed(where: str, parts: Iterable[Part], size: int) -> int:
        listed = list(parts)
        same(f"the sum of {where}", size, sum(part.bytes for part in listed))
        return sum(
            1 + (summed(f"{where}, {part.name}", part.parts, part.bytes) if part.parts else 0) for part in listed
        )

    count = 0
    for region in report.regions:
        same(f"the sum of {region.name}", region.used, sum(group.bytes for group in region.groups))
        count += sum(summed(f"{region.name}, {group.kind}", group.parts, group.bytes) for group in region.groups)
    return count


def check_totals(report: Report, package: Package, folder: Path) -> list[str]:
    """Compare each region with what other programs say. Returns the names of those that were asked."""
    image = folder / report.image
    if package.board.kind is BoardKind.WASM:
        return _check_module(report, image)
    if package.board.kind is BoardKind.WINDOWS:
        return _check_windows(report, package, image)
    told = ["size -A"]
    listed = sum(size for size, _ in sections(package, image).values())
    outside = parts(report, "between sections", "load image", "ELF header", "no section")
    same("all sections, as size -A lists them", sum(region.used for region in report.regions) - outside, listed)
    if package.board.kind is BoardKind.BARE:
        return [*told, *_check_bare(report, package, image)]
    loads = re.findall(
        r"^\s*LOAD\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)\s+(.{3})\s", binutils(package, "readelf", "-lW", image), re.M
    )
    for region, writable in zip(report.regions, (False, True), strict=True):
        segments = [int(size, 16) for size, flags in loads if ("W" in flags) is writable]
        same(f"the PT_LOAD segments of {region.name}", region.used, sum(segments))
    return [*told, "PT_LOAD"]


def binutils(package: Package, tool: str, *arguments: str | Path) -> str:
    """What a program of the board's toolchain prints."""
    command = [package.board.toolchain.prefix + tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def sections(package: Package, image: Path) -> dict[str, tuple[int, int]]:
    """Bytes and address of each section that takes memory, as `size -A` prints them."""
    rows = re.findall(r"^(\S+)\s+(\d+)\s+(\d+)$", binutils(package, "size", "-A", image), re.MULTILINE)
    # Thread-local zeros have an address but no memory of the program's own.
    return {name: (int(size), int(at)) for name, size, at in rows if not _DEBUG.match(name) and name != ".tbss"}


def parts(report: Report, *names: str) -> int:
    """Bytes of the rows right below a group whose names begin so."""
    groups = [group for region in report.regions for group in region.groups]
    return sum(part.bytes for group in groups for part in group.parts if part.name.startswith(names))


def _check_bare(report: Report, package: Package, elf: Path) -> list[str]:
    told, used = ["objcopy"], {region.name: region.used for region in report.regions}
    usage = elf.with_suffix(".usage")  # lld of LLVM 14 prints none
    if usage.is_file():
        same("what ld --print-memory-usage prints", used, parse_usage(usage.read_text()))
        told.append("ld")
    board, home = package.board, package.board.region_for(Holds.CODE).name
    files = {
        ".model": (board.region_for(Holds.WEIGHTS).name, "model.bin"),
        ".hot_weights": (board.hot_region, "hot.bin"),
    }
    # A raw image spans the gap between two kinds of flash, so each gets its own.
    apart = {section: one for section, one in files.items() if one[0] not in ("", home)}
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "image.bin"
        binutils(package, "objcopy", "-O", "binary", *(f"--remove-section={one}" for one in apart), elf, raw)
        same("the raw image of objcopy", used[home], raw.stat().st_size)
        if elf.with_suffix(".bin").is_file():
            same("the .bin", raw.stat().st_size, elf.with_suffix(".bin").stat().st_size)
        for section, (region, name) in apart.items():
            binutils(package, "objcopy", "-O", "binary", f"--only-section={section}", elf, raw)
            same(f"the raw image of {section}", used[region], raw.stat().st_size)
            same(f"the contents of {section}", raw.read_bytes() == (elf.parents[1] / name).read_bytes(), True)
    homes = {home, *(region for region, _ in apart.values())}
    placed = [(at, at + size) for size, at in sections(package, elf).values() if size]
    for region in (one for one in report.regions if one.name not in homes):
        ends = [end for at, end in placed if region.origin <= at < region.origin + region.length]
        same(f"the last byte of {region.name}", region.used, max(ends, default=region.origin) - region.origin)
    return told


def _check_windows(report: Report, package: Package, image: Path) -> list[str]:
    """The headers say what may be written, the system maps whole pages, and GNU's size lists what a file stores."""
    command = ["llvm-readobj", "--file-headers", "--sections", str(image)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(
        r"Name: (\S+) .*?VirtualSize: 0x([0-9A-F]+).*?RawDataSize: (\d+).*?Characteristics \[(.*?)\]", text, re.DOTALL
    )
    sizes = {name: int(size, 16) for name, size, _, _ in found}
    for region, writable in zip(report.regions, (False, True), strict=True):
        mine = [sizes[name] for name, _, _, flags in found if ("MEM_WRITE" in flags) is writable]
        same(f"the sections of {region.name} in llvm-readobj", region.used, sum(mine))
    pages = sum(-(-size // _WINDOWS_PAGE) for size in sizes.values())
    whole = re.search(r"SizeOfImage: (\d+)", text)
    same("SizeOfImage", (1 + pages) * _WINDOWS_PAGE, int(whole[1]) if whole else None)
    stored = {name: min(sizes[name], int(raw) or sizes[name]) for name, _, raw, _ in found}
    listed = {name: size for name, (size, _) in sections(package, image).items()}
    same("what size -A lists", stored, listed)
    return ["size -A", "llvm-readobj", "SizeOfImage"]


def _check_module(report: Report, image: Path) -> list[str]:
    """The file's length, its sections as `llvm-size -A` lists them, and the memory that an engine makes for it."""
    import wasmtime

    module, memory = report.regions
    same("the length of the file", module.used, image.stat().st_size)
    text = subprocess.run(["llvm-size", "-A", str(image)], capture_output=True, text=True, check=True).stdout
    total = 8
    for name, size_ in re.findall(r"^(\S+)\s+(\d+)\s+0$", text, re.MULTILINE):
        size = int(size_) + (0 if name.isupper() else 1 + len(name))  # a custom section begins with its name
        total += 1 + -(-max(1, size.bit_length()) // 7) + size
    same("all sections, as llvm-size -A lists them", module.used, total)
    loaded = wasmtime.Module.from_file(wasmtime.Engine(), str(image))
    sizes = [one.type.limits.min for one in loaded.exports if isinstance(one.type, wasmtime.MemoryType)]
    same("the memory that wasmtime makes", memory.used, sum(sizes) * 65536)
    return ["llvm-size -A", "file", "wasmtime"]


def check_entry(entry: ObservedEntry) -> None:
    """A run stays within the bound of a function, and goes at least so deep that the bound is worth something."""
    if entry.bound is None or entry.observed is None:
        raise AssertionError(f"{entry.name}: bound {entry.bound}, observed {entry.observed}")
    if not entry.bound >= entry.observed >= TIGHT * entry.bound:
        raise AssertionError(f"{entry.name}: bound {entry.bound}, observed {entry.observed}")
