"""What a matrix consists of and what becomes of it, as data."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

SCHEMA = 1
_LONGEST = 80  # characters of a cell's folder before its hash

# Exit codes, the worst first: what is wrong, then what is only not there or too small.
WORST = (70, 7, 6, 5, 2, 1, 4, 3, 0)


class Cell(msgspec.Struct, frozen=True):
    """One model on one board.

    Attributes:
        checkpoint: its folder.
        board: name or path, as `load_board` takes it.
        recipe: in its short form, see `colibri.recipe`; behind it the file, where another of the matrix has the same.
        recipe_file: that it was read from, and is read from again, since it may hold what no word says.
        toolchain: as `colibri build --toolchain` takes it; empty for the board's own.
        namesake: whether another checkpoint of the matrix, in another folder, is called the same.
        board_namesake: whether another board is.
    """

    checkpoint: str
    board: str
    recipe: str
    toolchain: str = ""
    namesake: bool = False
    board_namesake: bool = False
    recipe_file: str = ""

    @property
    def name(self) -> str:
        """Of its folder: ``CHECKPOINT--BOARD--RECIPE``, a toolchain behind; where that is not unique, with a hash."""
        given = [_last(self.checkpoint), _last(self.board).removesuffix(".toml"), *filter(None, [self.toolchain])]
        parts = [_slug(part) for part in given]
        name = "--".join([*parts[:2], _slug(self.recipe), *parts[2:]])
        if parts == given and len(name) <= _LONGEST and "/" not in self.board + self.recipe and not self.namesake:
            return name
        return f"{name[:_LONGEST]}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]}"


class State(StrEnum):
    """What a run in an emulator gave."""

    EQUAL = "equal"
    DIFFERENT = "different"
    FAILED = "failed"
    MISSING = "missing"


class Run(msgspec.Struct, frozen=True):
    """One emulator.

    Attributes:
        proves: what of the board it has.
        digest: SHA-256 over the bits of all outputs; empty when there are none.
        instructions: per ``unit``; None when not counted.
        why: what is wrong or not here; empty when equal.
    """

    emulator: str
    proves: str
    state: State
    digest: str = ""
    instructions: int | None = None
    unit: str = ""
    why: str = ""


class Result(msgspec.Struct, frozen=True):
    """What became of a cell.

    Attributes:
        source: the checkpoint's folder.
        checkpoint: its name, with the folder above where another has the same.
        board: its name, with the folder above where another has the same.
        package: its folder in that of the matrix.
        toolchain: as asked for, or else the family of the board's own compiler; empty when there was none.
        code: exit code of the worst that happened, as a command of its own would have had it.
        error: that in a line; empty when all is fine.
        fits: None when it was not built.
        over: region to bytes that it holds too many.
        flash: bytes of the product in all regions of this kind; None when it was not built.
        ram: the same, with the reserved stack, without the application's reserve.
        stack: bound of the program, in bytes; None when there is none.
        seconds: that it took.
    """

    source: str
    checkpoint: str
    board: str
    recipe: str
    package: str
    code: int
    error: str = ""
    toolchain: str = ""
    fits: bool | None = None
    over: dict[str, int] = {}
    flash: int | None = None
    ram: int | None = None
    stack: int | None = None
    runs: tuple[Run, ...] = ()
    seconds: float = 0.0

    @property
    def model(self) -> tuple[str, str]:
        """What all boards are to give the same bits for."""
        return (self.source, self.recipe)


class Matrix(msgspec.Struct, frozen=True):
    """All cells, in the order that was asked for."""

    schema: int
    cells: tuple[Result, ...]

    def to_json(self) -> str:
        """Indented, with sorted keys."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1).decode() + "\n"

    def models(self) -> list[tuple[str, list[Result]]]:
        """The cells of each model, and the digest that most of its runs gave."""
        common = self.digests()
        return [(digest, [cell for cell in self.cells if cell.model == model]) for model, digest in common.items()]

    @property
    def code(self) -> int:
        """The worst exit code of the cells."""
        return worst(cell.code for cell in self.cells)

    def digests(self) -> dict[tuple[str, str], str]:
        """For each model, the digest that most of its runs gave."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for cell in self.cells:
            found.setdefault(cell.model, Counter()).update(run.digest for run in cell.runs if run.digest)
        return {model: counts.most_common(1)[0][0] if counts else "" for model, counts in found.items()}

    def totals(self) -> str:
        """``12 cells: 12 built, 11 fit, 10 run, all to the same bits``."""
        built = [cell for cell in self.cells if cell.fits is not None]
        ran = [cell for cell in self.cells if any(run.digest for run in cell.runs)]
        common = self.digests()
        equal = all(run.digest in ("", common[cell.model]) for cell in ran for run in cell.runs)
        bits = f", {'all to the same bits' if equal else 'NOT all to the same bits'}" if ran else ""
        fit = sum(bool(cell.fits) for cell in built)
        plural = "" if len(self.cells) == 1 else "s"
        return f"{len(self.cells)} cell{plural}: {len(built)} built, {fit} fit, {len(ran)} ran{bits}"


def nothing(cell: Cell, package: str, code: int, error: str) -> Result:
    """The result of a cell of which nothing else is known."""
    board = _called(cell.board, cell.board_namesake).removesuffix(".toml")
    name = _called(cell.checkpoint, cell.namesake)
    return Result(cell.checkpoint, name, board, cell.recipe, package, code, error, cell.toolchain)


def worst(codes: Iterable[int]) -> int:
    """The exit code that stands for all: a fault before a tool that is missing, that before what does not fit."""
    return min(codes, key=lambda code: WORST.index(code) if code in WORST else 0, default=0)


def same_digest(runs: Sequence[Run], common: str) -> bool | None:
    """Whether all runs that gave outputs gave these; None when none did."""
    given = [run.digest for run in runs if run.digest]
    return all(digest == common for digest in given) if given else None


def _slug(text: str) -> str:
    """Letters, digits and ``._``, with single dashes for what is between."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")


def _called(path: str, namesake: bool) -> str:
    return "/".join(path.rstrip("/").split("/")[-2:]) if namesake else _last(path)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
