"""Which kernel folder serves which kernel, and how that kernel wants its weights packed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.errors import BadInput
from colibri.graph.coding import GROUP, Coding, WeightFormat
from colibri.graph.graph import BufferKind
from colibri.paths import data_folder

PORTABLE = "portable"  # the folder that has every kernel
_BITS = {BufferKind.Q8: "a8", BufferKind.Q16: "a16"}
_FUNCTION = re.compile(
    r"^(?:static|COLIBRI_SHARED|COLIBRI_ASSEMBLY|COLIBRI_INSIDE) [^;{}()=]*?\b(colibri_\w+)\([^;{}]*\)\s*\{(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Tile:
    """Packing of one kernel: ``rows`` x ``cols`` weights lie together.

    Attributes:
        order: of the tile's weights; empty for row by row, see `pack.Order`.
        group_sums: whether the kernel takes the sum of every 32 activations besides.
        any_group: whether a kernel of 4-bit weights takes the columns of a group, and so serves larger groups too.
        inputs: how many inputs its header can multiply a tile with at once.
        facts: bytes a column that another function tells that one of the inputs, once for all tiles; 0 for none.
        fetches: whether that function fetches the next tile, and so wants to know how many calls share that.
        whole: whether its header has a function for a whole matrix of whole tiles, that stores scaled sums, too.
        between: words of 32 activations with their sum, if that function takes those in place of both; else 0.
    """

    rows: int
    cols: int
    order: str = ""
    group_sums: bool = False
    any_group: bool = False
    inputs: int = 1
    facts: int = 0
    fetches: bool = False
    whole: bool = False
    between: int = 0


class KernelSet:
    """Kernel folders of a board, by preference.

    Args:
        folders: names under ``runtime_c/kernels``; the first that has a file of the wanted stem wins.

    Attributes:
        wide_activations: whether 8-bit activations stand in 16 bits each, as the first folder wants them.
        whole_rows: whether ``float32.h`` of the board has activations of whole rows, not of one value alone.

    Raises:
        BadInput: no such folder.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self._root = data_folder("runtime_c") / "kernels"
        self._tiles: dict[tuple[str, str], Tile] = {}
        self._found: dict[str, str] = {}  # stem to folder
        self._wide = set[str]()  # folders
        self._whole_rows = set[str]()  # folders
        for folder in folders:
            manifest = self._root / folder / "kernels.toml"
            if not manifest.is_file():
                raise BadInput(f"no kernel folder {folder!r}", where="board", hint=f"see {self._root}")
            entries = tomllib.loads(manifest.read_text())
            self._wide |= {folder} if entries.pop("wide_activations", False) else set()
            self._whole_rows |= {folder} if entries.pop("whole_rows", False) else set()
            for stem, entry in entries.items():
                self._tiles[folder, stem] = Tile(**entry)
        self.wide_activations = folders[0] in self._wide
        self.whole_rows = self.folder("float32") in self._whole_rows

    def folder(self, stem: str) -> str:
        """Folder that serves the kernel ``stem``."""
        if stem in self._found:
            return self._found[stem]
        for folder in self.folders:
            if (self._root / folder / f"{stem}.h").is_file():
                self._found[stem] = folder
                return folder
        raise BadInput(f"no kernel {stem}", where="board", hint="the list of kernel folders ends with portable")

    def has(self, stem: str) -> bool:
        """Whether a folder serves a kernel that portable C does not have."""
        return any((self._root / folder / f"{stem}.h").is_file() for folder in self.folders)

    def path(self, stem: str) -> Path:
        """The kernel's header."""
        return self._root / self.folder(stem) / f"{stem}.h"

    def tile(self, coding: Coding, activations: BufferKind) -> Tile:
        """Packing of the dot kernel for a coding and the kind of its input."""
        stem = self.dot_kernel(coding, activations)
        return self._tiles[self.folder(stem), stem]

    def dot_kernel(self, coding: Coding, activations: BufferKind) -> str:
        """The dot kernel's stem; that of 16-bit activations where those of 8 stand in 16 and have none of their own."""
        stem = dot_kernel(coding, activations)
        if coding.format is WeightFormat.W4 and not coding.zero and coding.group != GROUP:
            whole = self.dot_kernel(replace(coding, group=GROUP), activations)
            stem = whole if self._tiles[self.folder(whole), whole].any_group else stem
        if self.wide_activations and activations is BufferKind.Q8 and self.folder(stem) not in self._wide:
            return self.dot_kernel(coding, BufferKind.Q16)
        return stem

    def inputs(self, coding: Coding, activations: BufferKind) -> int:
        """How many inputs the dot kernel can multiply a tile with at once; 1 for one after the other."""
        return 1 if coding.outliers else self.tile(coding, activations).inputs


def call_graph(headers: Iterable[Path]) -> dict[str, frozenset[str]]:
    """Functions that kernel headers define, each with those that it calls: the compiler may not inline them all."""
    bodies = {name: body for header in headers for name, body in _FUNCTION.findall(header.read_text(encoding="utf-8"))}
    return {name: frozenset(named_in(body) & bodies.keys() - {name}) for name, body in bodies.items()}


def named_in(code: str) -> set[str]:
    """Functions of the runtime that some C calls."""
    return set(re.findall(r"\bcolibri_\w+(?=\()", code))


def reached(graph: Mapping[str, Collection[str]], names: Iterable[str]) -> set[str]:
    """The given functions of a call graph and all that they lead to."""
    found, pending = set[str](), [name for name in names if name in graph]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += graph[name]
    return found


def dot_kernel(coding: Coding, activations: BufferKind) -> str:
    """Stem of the dot kernel: ``dot_f32``, ``dot_w8a8``, …; ``dot_planes_a8`` for all that have none of their own."""
    form, own = coding.format, replace(coding, outliers=0).plain
    if form.floating:
        return f"dot_{form}"
    bits = _BITS[activations]
    if form in (WeightFormat.W8, WeightFormat.FP4) or (form is WeightFormat.W4 and own):
        return f"dot_{form}{bits}"
    return f"dot_planes_{bits}"


def scheme_name(coding: Coding, activations: BufferKind) -> str:
    """``f32``, ``w4a8``, ``w3g64za16+o5``: the coding, and in it the bits of the activations."""
    if coding.format.floating:
        return str(coding)
    own, plus, tail = str(coding).partition("+")
    return f"{own}{_BITS[activations]}{plus}{tail}"
