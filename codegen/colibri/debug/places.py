"""Where an image calls the first kernel of an op: there everything before is done, and nothing of it has begun.

Line numbers alone would not do: a compiler moves the arithmetic of a line before the calls of earlier lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from colibri.debug.source import read_source
from colibri.errors import BadInput, UsageError
from colibri.footprint.call_tree import disassemble
from colibri.footprint.stack_effects import READERS, Flow, Instruction
from colibri.package import Package
from colibri.symbol_table import READING_FAILED
from colibri.toolchain.places import disassembler

_SOURCE = "src/model.c"


@dataclass(frozen=True)
class CallPlace:
    """An instruction that calls the first kernel of an op, in whatever layer.

    Attributes:
        weights: which argument points to the op's own weights; -1 when none does.
    """

    address: int
    weights: int


def op_places(folder: Path, package: Package, image: Path) -> dict[tuple[str, int], list[CallPlace]]:
    """Block and place of the op in the block, to the calls that begin it: one for each number of rows and each copy.

    Args:
        folder: of the package.
        image: built in it.

    Raises:
        BadInput: the image, its source or the package do not belong together, or there are no line numbers.
        ToolMissing: no disassembler.
        UsageError: the package has its layers several times.
    """
    if package.board.levels:
        names = ", ".join(level.name for level in package.board.levels)
        what = f"{package.board.id} has the layers several times (also for {names}): ops are no places to stop at"
        raise UsageError(what, where="--break", hint="debug a package for a board with one set of instructions")
    text = (folder / _SOURCE).read_text(encoding="utf-8")
    kernels, functions = read_source(text)
    by_line = _calls_by_line(folder, package, image, kernels)
    places: dict[tuple[str, int], list[CallPlace]] = {}
    counts = _calls_of_ops(package)
    for function in functions:
        if sum(counts.get(function.block, ())) != len(function.calls):
            raise BadInput(f"{_SOURCE} is not the one of package.json", where=str(folder), hint="generate it again")
        at = 0
        for within, count in enumerate(counts[function.block]):
            if count:
                call = function.calls[at]
                found = places.setdefault((function.block, within), [])
                for line in range(call.first, call.last + 1):
                    found += [CallPlace(address, call.weights) for address in by_line.get((line, call.kernel), ())]
            at += count
    return places


def _calls_of_ops(package: Package) -> dict[str, list[int]]:
    """For each block, how many kernels each of its ops calls."""
    counts: dict[str, list[int]] = {}
    previous, fresh = None, False
    for op in package.ops:
        if (op.layer, op.block) != previous:
            fresh = op.block not in counts
            previous = (op.layer, op.block)
        if fresh:
            counts.setdefault(op.block, []).append(len(op.kernels))
    return counts


def _calls_by_line(
    folder: Path, package: Package, image: Path, kernels: Iterable[str]
) -> dict[tuple[int, str], list[int]]:
    """Line of the model's source and kernel to the addresses of the calls."""
    arch = package.board.cpu.arch
    if arch not in READERS:
        raise BadInput(f"no reader for the machine code of {arch}", where=str(image))
    decode, _, _ = READERS[arch]
    lines = _Lines(image)
    known = frozenset(kernels)
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for one in disassemble(image, disassembler(folder), arch):
        kernel = _kernel_of(one, known)
        if kernel and decode(one).flow in (Flow.CALL, Flow.JUMP) and (line := lines.at(one.address)):
            found[line, kernel].append(one.address)
    return found


def _kernel_of(one: Instruction, kernels: frozenset[str]) -> str:
    """The kernel that an instruction names: itself, a copy for constant arguments, or the linker's bridge to it."""
    name = one.label.partition(".")[0]
    if name in kernels:
        return name
    inner = name.removeprefix("__").removesuffix("_veneer").rpartition("Thunk_")[2]
    return inner if inner in kernels else ""


class _Lines:
    """Line numbers of the model's source, from the image's DWARF."""

    def __init__(self, image: Path) -> None:
        from elftools.common.exceptions import DWARFError, ELFError
        from elftools.elf.elffile import ELFFile

        rows: list[tuple[int, int]] = []
        try:
            with image.open("rb") as file:
                elf = ELFFile(file)
                dwarf = elf.get_dwarf_info() if elf.has_dwarf_info() else None
                for unit in dwarf.iter_CUs() if dwarf is not None else ():
                    name = unit.get_top_DIE().attributes.get("DW_AT_name")
                    if dwarf is None or name is None or not name.value.decode(errors="replace").endswith(_SOURCE):
                        continue
                    program = dwarf.line_program_for_CU(unit)
                    for entry in program.get_entries() if program is not None else ():
                        if entry.state is not None:
                            own = _is_source(program, entry.state.file)
                            ends = entry.state.end_sequence or not own
                            rows.append((entry.state.address, 0 if ends else entry.state.line))
        except (ELFError, DWARFError, *READING_FAILED) as error:
            raise BadInput(f"is damaged: {error}", where=str(image), hint="build the package again") from None
        if not rows:
            raise BadInput(f"has no line numbers of {_SOURCE}", where=str(image), hint="compile it with -g")
        # A sequence that ends where the next one begins says nothing of that address; of several rows the last counts.
        self._rows = sorted(dict(sorted(rows, key=lambda row: (row[0], row[1] > 0))).items())
        self._addresses = [address for address, _ in self._rows]

    def at(self, address: int) -> int:
        """The line that an instruction belongs to; 0 when it belongs to none."""
        after = bisect_right(self._addresses, address)
        return self._rows[after - 1][1] if after else 0


def _is_source(program: object, index: int) -> bool:
    """Whether a file of a line program is the model's source; the numbers begin at 1 before DWARF 5."""
    header = program.header  # type: ignore[attr-defined]
    files = header["file_entry"]
    at = index if header["version"] >= 5 else index - 1
    return 0 <= at < len(files) and bool(files[at].name.decode(errors="replace").endswith("model.c"))
