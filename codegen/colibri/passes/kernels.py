"""Which kernel folder serves which kernel, and how that kernel wants its weights packed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from colibri.errors import BadInput
from colibri.graph.graph import BufferKind
from colibri.graph.weights import WeightFormat
from colibri.paths import data_folder

_FUNCTION = re.compile(r"^static [^;{}()=]*?\b(colibri_\w+)\([^;{}]*\)\s*\{(.*?)^\}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Tile:
    """Packing of one kernel: ``rows`` x ``cols`` weights lie together."""

    rows: int
    cols: int


class KernelSet:
    """Kernel folders of a board, by preference.

    Args:
        folders: names under ``runtime_c/kernels``; the first that has a file of the wanted stem wins.

    Raises:
        BadInput: no such folder.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self._root = data_folder("runtime_c") / "kernels"
        self._tiles: dict[tuple[str, str], Tile] = {}
        for folder in folders:
            manifest = self._root / folder / "kernels.toml"
            if not manifest.is_file():
                raise BadInput(f"no kernel folder {folder!r}", where="board", hint=f"see {self._root}")
            for stem, entry in tomllib.loads(manifest.read_text()).items():
                self._tiles[folder, stem] = Tile(entry["rows"], entry["cols"])

    def folder(self, stem: str) -> str:
        """Folder that serves the kernel ``stem``."""
        for folder in self.folders:
            if (self._root / folder / f"{stem}.h").is_file():
                return folder
        raise BadInput(f"no kernel {stem}", where="board", hint="the list of kernel folders ends with portable")

    def path(self, stem: str) -> Path:
        """The kernel's header."""
        return self._root / self.folder(stem) / f"{stem}.h"

    def tile(self, form: WeightFormat, activations: BufferKind) -> Tile:
        """Packing of the dot kernel for a weight format and the kind of its input."""
        stem = dot_kernel(form, activations)
        return self._tiles[self.folder(stem), stem]


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


def dot_kernel(form: WeightFormat, activations: BufferKind) -> str:
    """Stem of the dot kernel: ``dot_f32``, ``dot_w8a8``, …"""
    return "dot_f32" if form is WeightFormat.F32 else f"dot_{scheme_name(form, activations)}"


def scheme_name(form: WeightFormat, activations: BufferKind) -> str:
    """``f32`` or ``w4a8`` and the like."""
    return "f32" if form is WeightFormat.F32 else f"{form}a{'8' if activations is BufferKind.Q8 else '16'}"
