"""Build the products that `ci/code-size` measures, and read them: what the last one had too is not compiled again."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from size_models import Case

from colibri.boards.profile import Board, Holds
from colibri.emit.module import Module
from colibri.emit.package_text import Contents
from colibri.emit.writer import write_package
from colibri.errors import DoesNotFit
from colibri.footprint.attribute import GroupKind, Piece
from colibri.footprint.owners import Owner
from colibri.footprint.report import read_pieces
from colibri.generate import prepare
from colibri.package import Package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import OVERSIZE, product_name


class Bytes(msgspec.Struct, frozen=True):
    """What was measured of a product: its groups, and the functions of `model.c` and of the compiler's library."""

    code: int
    tables: int
    data: int
    functions: dict[str, int]
    library: dict[str, int]


@dataclass(frozen=True)
class Sample:
    """A product: what was generated, and what was measured of it."""

    name: str
    module: Module
    package: Package
    bytes: Bytes

    @property
    def kind(self) -> str:
        """``tokens`` or ``samples``."""
        return self.package.model.kind


def measure(cases: Iterable[Case], board: Board, folder: Path, known: dict[str, Bytes]) -> Iterator[Sample]:
    """Generate, build and read one product after the other; what the linker refuses for its size is passed over.

    Args:
        folder: where the package of each is built; nothing else may be in it.
        known: by name of the case, what need not be built; it is added to.
    """
    for case in cases:
        contents = prepare(case.path, board, case.options, folder, proven=False)
        if case.name not in known:
            try:
                fits = _build(contents, folder)
            except DoesNotFit:  # zig links no image that is larger than the board
                continue
            known[case.name] = _read(contents, folder, fits=fits)
        yield Sample(case.name, contents.module, contents.package, known[case.name])


def _build(contents: Contents, folder: Path) -> bool:
    """Make the product; return whether it fits."""
    fresh = folder.with_name(f"{folder.name}-fresh")
    write_package(fresh, contents)
    # Debug information takes a third of the compiler's time, and changes no code.
    text = (fresh / "build.ninja").read_text(encoding="utf-8")
    (fresh / "build.ninja").write_text(text.replace(" -g ", " -g0 "), encoding="utf-8")
    _take_over(fresh, folder)
    return build(folder, [product_name(contents.package.board)])


def _read(contents: Contents, folder: Path, *, fits: bool) -> Bytes:
    package = contents.package
    image = folder / (product_name(package.board) if fits else OVERSIZE)
    layout, pieces = read_pieces(folder, package, image, overflowed=not fits)
    # What start-up copies into RAM lies in flash too, and constants of WebAssembly in the memory: each counts once.
    pieces = [piece for piece in pieces if not piece.path[0].startswith("load image")]
    homes = {GroupKind.TABLES: layout.home(Holds.CODE), GroupKind.DATA: layout.home(Holds.DATA)}
    groups = Counter[GroupKind]()
    for piece in pieces:
        if homes.get(piece.group, piece.region) == piece.region:
            groups[piece.group] += piece.bytes
    return Bytes(
        *(groups[kind] for kind in (GroupKind.CODE, GroupKind.TABLES, GroupKind.DATA)),
        functions=_code_of(pieces, Owner.MODEL),
        library=_code_of(pieces, Owner.COMPILER),
    )


def _take_over(fresh: Path, folder: Path) -> None:
    """Replace the files of a package that differ from those of a new one: ninja goes by their times."""
    new = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for path in new:
        target = folder / path
        if not (target.is_file() and target.read_bytes() == (fresh / path).read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(fresh / path, target)
    for old in [path for path in folder.rglob("*") if path.is_file()]:
        name = old.relative_to(folder)
        if name not in new and name.parts[0] not in ("build", ".ninja_log", ".ninja_deps"):
            old.unlink()
    shutil.rmtree(fresh)


def _code_of(pieces: Iterable[Piece], owner: Owner) -> dict[str, int]:
    """Bytes of each function of an owner; the parts that gcc splits off count with the function."""
    sizes = Counter[str]()
    for piece in pieces:
        if piece.group is GroupKind.CODE and piece.path[0] == owner.value:
            sizes[re.sub(r"(\.(isra|part|constprop|cold)(\.\d+)?)+$", "", piece.path[-1])] += piece.bytes
    return dict(sizes)
