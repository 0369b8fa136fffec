"""What a recipe takes on a board: planned to the byte, but for the code, which no compiler has seen yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from colibri.boards.profile import Board, Holds, MemoryKind
from colibri.emit.package_text import Contents
from colibri.errors import BadInput, UsageError, in_bytes
from colibri.footprint.code_size import expected_code
from colibri.generate import prepare
from colibri.inspection import ram_left
from colibri.package import OpFact
from colibri.passes.fold import FoldText
from colibri.passes.place import rooms
from colibri.recipe import parse_recipe

_OF_THE_FILE = ("header and table", "manifest")


class Sizes(msgspec.Struct, frozen=True):
    """Bytes of a recipe on a board.

    Attributes:
        weights: of the files of weights.
        code: instructions and constants, predicted; more where kernels were never measured.
        flash: of both.
        memory: of the caller's memory, in all blocks.
        flash_over, ram_over: bytes that have no room.
        context, prefill: positions, and tokens at once; 0 for samples.
        sections: of the files of weights, by name; without those that say what the file is.
    """

    weights: int
    code: int
    flash: int
    memory: int
    flash_over: int
    ram_over: int
    context: int
    prefill: int
    sections: dict[str, int] = {}
    ops: tuple[OpFact, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether everything has room."""
        return not (self.flash_over or self.ram_over)


def reserved(board: Board, flash: int | None, ram: int | None) -> Board:
    """The board less what the application keeps for itself.

    Args:
        flash: bytes of the region with the code; None for none.
        ram: bytes of the region with the variables; None for what the board file says.

    Raises:
        UsageError: more than there is.
    """
    if flash:
        code = board.region_for(Holds.CODE)
        if code.limit and flash >= code.limit:
            raise _too_much("--reserve-flash", flash, code.name, code.limit)
        memory = tuple(
            msgspec.structs.replace(region, budget=region.limit - flash, warn=min(region.warn, region.limit - flash))
            if region is code and region.limit
            else region
            for region in board.memory
        )
        board = msgspec.structs.replace(board, memory=memory)
    if ram is not None:
        data = board.region_for(Holds.DATA)
        stack = board.stack if data == board.region_for(Holds.STACK) else 0
        if data.limit and ram >= data.limit - stack:
            raise _too_much("--reserve-ram", ram, data.name, data.limit - stack)
        board = msgspec.structs.replace(board, reserve=ram)
    return board


def _too_much(option: str, asked: int, region: str, limit: int) -> UsageError:
    return UsageError(f"{asked:,} bytes leave nothing of the {limit:,} in {region!r}", where=option)


def in_words(flash: int, ram: int) -> str:
    """Bytes of both, in words; not both are 0.

    >>> in_words(4, 0), in_words(1500, 1)
    ('4 bytes of flash', '1,500 bytes of flash and 1 byte of RAM')
    """
    return " and ".join(f"{in_bytes(over)} of {what}" for over, what in ((flash, "flash"), (ram, "RAM")) if over)


@dataclass
class Planner:
    """Plans recipes of a checkpoint for a board, each once.

    Attributes:
        board: less the reserves.
        out: folder of the package that one of them will become.
        folds: as `Options` has them; None finds them in the weights, each time.
    """

    checkpoint: Path
    board: Board
    out: Path
    folds: FoldText | None = None
    _planned: dict[str, Sizes | None] = field(default_factory=dict)

    def sizes(self, recipe: str) -> Sizes | None:
        """None where the recipe cannot be: a sum could overflow, say."""
        if recipe not in self._planned:
            try:
                self._planned[recipe] = self.must(recipe)
            except (BadInput, UsageError):
                self._planned[recipe] = None
        return self._planned[recipe]

    def must(self, recipe: str) -> Sizes:
        """The same of a recipe that has to be one.

        Raises:
            BadInput, UsageError: it is none.
        """
        options = replace(parse_recipe(recipe), folds=self.folds)
        contents = prepare(self.checkpoint, self.board, options, self.out, proven=False)
        return sizes_of(contents, self.board)


def sizes_of(contents: Contents, board: Board) -> Sizes:
    """What a package is going to take."""
    package = contents.package
    files = package.weight_files()
    homes = [board.region_for(Holds.WEIGHTS).name, *([package.hot_weights.region] if package.hot_weights else [])]
    code = expected_code(contents.module, package)
    home = board.region_for(Holds.CODE).name
    over = 0
    for region in board.memory:
        if region.kind is MemoryKind.FLASH and region.limit:
            used = code if region.name == home else 0
            used += sum(size for name, (_, size, _) in zip(homes, files, strict=True) if name == region.name)
            over += max(0, used - region.limit)
    rows = package.prefill or package.batch
    left = ram_left(package.memory, rooms(board, contents.graph, rows, emulated=False))
    weights = sum(size for _, size, _ in files)
    return Sizes(
        weights=weights,
        code=code,
        flash=weights + code,
        memory=package.memory.total,
        flash_over=over,
        ram_over=0 if left is None else max(0, -left),
        context=package.context,
        prefill=package.prefill,
        sections={
            section.name: section.bytes
            for _, _, sections in files
            for section in sections
            if section.part not in _OF_THE_FILE
        },
        ops=package.ops,
    )
