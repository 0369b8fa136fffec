"""Which kernel folder serves which kernel, and how that kernel wants its weights packed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from colibri.errors import BadInput
from colibri.graph.graph import BufferKind
from colibri.graph.weights import WeightFormat
from colibri.paths import data_folder

_FUNCTION = re.compile(r"^static [^;{}()=]*?\b(colibri_\w+)\(", re.MULTILINE)


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


def functions_of(headers: Iterable[Path]) -> list[str]:
    """Names of the functions that kernel headers define, sorted: the compiler may make them functions of their own."""
    texts = (header.read_text(encoding="utf-8") for header in headers)
    return sorted({name for text in texts for name in _FUNCTION.findall(text)})


def dot_kernel(form: WeightFormat, activations: BufferKind) -> str:
    """Stem of the dot kernel: ``dot_f32``, ``dot_w8a8``, …"""
    return "dot_f32" if form is WeightFormat.F32 else f"dot_{scheme_name(form, activations)}"


def scheme_name(form: WeightFormat, activations: BufferKind) -> str:
    """``f32`` or ``w4a8`` and the like."""
    return "f32" if form is WeightFormat.F32 else f"{form}a{'8' if activations is BufferKind.Q8 else '16'}"
