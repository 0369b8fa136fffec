"""The footprint of a built package, as data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from colibri.boards.profile import BoardKind, Holds, MemoryKind
from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput, ColibriError, DoesNotFit, in_bytes
from colibri.footprint.attribute import GroupKind, Piece, attribute
from colibri.footprint.elf import Image, read_image
from colibri.footprint.groups import Group, grouped
from colibri.footprint.layout import Layout, lay_out
from colibri.footprint.library import LibraryUse, library_use
from colibri.footprint.linker import parse_map, parse_outputs, parse_usage
from colibri.footprint.owners import Owners
from colibri.footprint.pe import read_pe
from colibri.footprint.saved import least_saved
from colibri.footprint.stack import Observed, StackUse, stack_use
from colibri.footprint.wasm_pieces import wasm_pieces
from colibri.optimise import Optimise
from colibri.package import Package, load_package
from colibri.toolchain.buildfiles import OVERSIZE, product_name

SCHEMA = 1
_TEXT_BYTES = 1 << 30  # of a linker's map
_MAP = "build/product.map"
_AGAIN = "build the package again"


class RegionUse(msgspec.Struct, frozen=True):
    """One memory region of the board. All sizes in bytes.

    Attributes:
        origin: first address.
        length: the physical wall; 0 when there is none.
        limit: what may be used: the board's budget, or else ``length``; 0 when there is no limit.
        reserve: kept for the application, on top of what the image uses.
        used: up to the last byte of the image in the region; sum over ``groups``.
        printed: what the linker printed; equal to ``used``. None when it printed nothing.
        over: bytes that ``used`` and ``reserve`` together are above ``limit``.
        warn: the board's level of them for a warning; 0 when it has none.
    """

    name: str
    kind: MemoryKind
    origin: int
    length: int
    limit: int
    reserve: int
    used: int
    printed: int | None
    over: int
    groups: tuple[Group, ...]
    warn: int = 0


class EmulatorNote(msgspec.Struct, frozen=True):
    """Where bits and instruction counts of the board come from; sizes never do.

    Attributes:
        proves: ``machine``, ``map``, ``core`` or ``isa``: what of the board is the emulator's too.
        note: what a run there does not show.
    """

    name: str
    proves: str
    note: str


class Modelled(msgspec.Struct, frozen=True):
    """Where the predictions of code, tables and data come from.

    Attributes:
        board: on which was measured what functions take; the report's own, or one that is alike or similar.
        compiler: with which.
        within: group to how far its prediction may be off, in bytes; empty when no board that is alike was measured.
        built_with: another compiler, for which the prediction does not hold; empty when it is that one.
        for_speed: whether the code is made for size and takes less, since what was measured is code for speed.
    """

    board: str
    compiler: str
    within: dict[GroupKind, int]
    built_with: str = ""
    for_speed: bool = False

    def text(self, board: str) -> str:
        """The same in words, for a report on ``board``."""
        kinds = (GroupKind.CODE, GroupKind.TABLES, GroupKind.DATA)
        words = f"predicted {', '.join(kinds)}: modelled for {self.compiler}, measured on {self.board}"
        if self.within:
            words += f", within {', '.join(f'{self.within[kind]:,}' for kind in kinds)} bytes"
        elif self.board != board:
            words += ", the most similar board"
        if self.for_speed:
            words += "; as for speed, so code for size takes less"
        if self.built_with:
            words += f"; the code is of {self.built_with}, and takes what that makes of it"
        return words


class Report(msgspec.Struct, frozen=True):
    """Flash and RAM of one image.

    Attributes:
        schema: version of this form.
        image: the ELF file, relative to the package.
        linked: whether it is the product; False for one that was linked over the walls only to be measured.
        emulators: where `colibri test` runs the model.
        stack: bound of the stack; None for a program without its package.
        observed: runs of the test program that were watched.
        modelled: None when code, tables and data were not predicted.
        library: what firmware links in place of the product's port; None for a program without its package.
        optimise: what the code is made for, ``speed`` or ``size``; empty for a program without its package.
        size_saves: bytes that the same code for size would save, rather too few; 0 where nobody knows.
    """

    schema: int
    package: str
    board: str
    title: str
    scheme: str
    image: str
    linked: bool
    regions: tuple[RegionUse, ...]
    emulators: tuple[EmulatorNote, ...] = ()
    stack: StackUse | None = None
    observed: tuple[Observed, ...] = ()
    modelled: Modelled | None = None
    library: LibraryUse | None = None
    optimise: str = ""
    size_saves: int = 0

    @property
    def made(self) -> str:
        """Scheme, and what the code is made for if not for speed."""
        return made(self.scheme, self.optimise)

    @property
    def alone(self) -> bool:
        """Whether it is of a program without its package; then there is no board either."""
        return not self.board

    def over(self) -> list[tuple[str, int]]:
        """Regions that hold more than they may, with the bytes above the limit."""
        return [(region.name, region.over) for region in self.regions if region.over]

    def to_json(self) -> bytes:
        """The report as JSON: sorted keys, integers, no times, no paths outside the package."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    def require_fit(self) -> None:
        """Do nothing when the image fits.

        Raises:
            DoesNotFit: the bytes over, per region; or a stack reserve below the bound.
        """
        if over := self.over():
            regions = ", ".join(f"{name} by {in_bytes(excess)}" for name, excess in over)
            raise DoesNotFit(
                f"the image is too large: {regions}",
                where=self.board,
                hint=self._way_to_fit(),
            )
        if self.stack is not None and self.stack.overflows:
            raise DoesNotFit(
                f"the stack can take {in_bytes(self.stack.program.bytes or 0)} and an exception "
                f"{self.stack.exception:,}, reserved are {self.stack.reserve:,}",
                where=self.board,
                hint=f"stack = {self.stack.needed} in the board file, or `colibri build --fit-stack`",
            )

    def _way_to_fit(self) -> str:
        """Lower the stack where that alone is enough, else make the model smaller."""
        smaller = "fewer experts, a smaller scheme, a shorter context or a larger board: see `colibri explain`"
        over = [region for region in self.regions if region.over]
        holds_code = any(group.kind is GroupKind.CODE for group in over[0].groups)
        if len(over) == 1 and holds_code and over[0].over <= self.size_saves:
            return f"--optimise size, which saves about {in_bytes(self.size_saves)} of code; or {smaller}"
        holds_stack = any(group.kind is GroupKind.STACK for group in over[0].groups)
        if len(over) > 1 or not holds_stack or self.stack is None or self.stack.needed is None:
            return smaller
        reserve, needed = self.stack.reserve, self.stack.needed
        if reserve - needed < over[0].over:
            return smaller
        return f"stack = {needed} in the board file is enough, not {reserve}; or `colibri build --fit-stack`"


def made(scheme: str, optimise: str) -> str:
    """What a package is, in a few words.

    >>> made("w4a8", "speed"), made("w4a8", "size")
    ('w4a8', 'w4a8 for size')
    """
    return f"{scheme} for size" if optimise == Optimise.SIZE else scheme


def make_report(folder: Path) -> Report:
    """Measure a built package.

    Args:
        folder: the package; reads ``package.json`` and, in ``build``, the product's image (or ``oversize.elf``, linked
            only to be measured), the linker's map, and the table of memory use that it printed, when it is there.

    Raises:
        BadInput: not a package, not built, or `package.json` is not of this image.
        ColibriError: the rows do not sum to what the program headers say, or these differ from the linker's table.
    """
    package = load_package(folder)
    product = folder / product_name(package.board)
    elf = next((path for path in (product, folder / OVERSIZE) if path.is_file()), None)
    if elf is None:
        raise BadInput("not built yet", where=str(folder), hint="run `ninja` in it, or `colibri build`")
    linked = elf == product
    library = library_use(folder / f"build/lib{package.prefix}.a") if elf.suffix == ".elf" else None
    for_speed = package.optimise is Optimise.SPEED
    with _of_one_build(folder):
        layout, pieces = read_pieces(folder, package, elf, overflowed=not linked)
        bare = package.board.kind is BoardKind.BARE
        usage = _beside(elf, ".usage") if bare else None
        printed = None if usage is None else _match(parse_usage(usage), layout)
    return Report(
        schema=SCHEMA,
        package=package.name,
        board=package.board.id,
        title=package.board.title,
        scheme=package.scheme,
        optimise=str(package.optimise),
        image=elf.relative_to(folder).as_posix(),
        linked=linked,
        regions=tuple(_region(index, layout, pieces, printed, package) for index in range(len(layout.regions))),
        emulators=tuple(EmulatorNote(e.name, str(e.proves), e.note) for e in package.board.emulators),
        stack=stack_use(folder, package, elf),
        modelled=_modelled(package),
        library=library,
        size_saves=least_saved(package.board.cpu.arch, library.code) if library and for_speed else 0,
    )


def read_pieces(folder: Path, package: Package, image: Path, *, overflowed: bool) -> tuple[Layout, list[Piece]]:
    """Where the image lies, and what every byte of it is.

    Raises:
        BadInput: the linker's map is missing, or not of this image, or the image is none.
        ColibriError: image, map and package are not of one build.
    """
    map_text = _beside(image, ".map")
    if map_text is None:
        raise BadInput("the linker's map is missing", where=_MAP, hint=_AGAIN)
    owners = Owners(folder)
    if package.board.kind is BoardKind.WASM:
        return wasm_pieces(image, map_text, owners, package)
    read = read_pe(image) if package.board.kind is BoardKind.WINDOWS else read_image(image)
    _require_map_of(read, map_text)
    layout = lay_out(read, package.board, overflowed=overflowed)
    return layout, attribute(read, layout, parse_map(map_text, read.base), owners, package)


def _require_map_of(image: Image, text: str) -> None:
    """Do nothing when each section of the image stands in the linker's map as it is.

    Raises:
        BadInput: the map is damaged, cut short, or that of another link.
    """
    placed = parse_outputs(text, image.base)
    if image.base:  # the map of a Windows program has lengths in the file, multiples of its alignment
        names = {name for name, _, _ in placed}
        strange = [section.name for section in image.sections if section.name not in names]
    else:
        strange = [one.name for one in image.sections if (one.name, one.address, one.bytes) not in placed]
    if strange:
        listed = ", ".join(strange[:3]) + (" …" if len(strange) > 3 else "")
        raise BadInput(f"the linker's map is not of this image: {listed}", where=_MAP, hint=_AGAIN)


def _modelled(package: Package) -> Modelled | None:
    estimate = package.code_estimate
    if estimate is None:
        return None
    compiler = package.compiler
    own = compiler is None or compiler.cc[0] == estimate.compiler.split()[0]
    return Modelled(
        board=estimate.board,
        compiler=estimate.compiler,
        within={
            GroupKind.CODE: estimate.within.code,
            GroupKind.TABLES: estimate.within.tables,
            GroupKind.DATA: estimate.within.data,
        }
        if estimate.within
        else {},
        built_with=" ".join(compiler.cc) if compiler and not own else "",
        for_speed=package.optimise is Optimise.SIZE,
    )


@contextmanager
def _of_one_build(folder: Path) -> Iterator[None]:
    """What generator, compiler and linker wrote fits together; where it does not, one of the files was changed since.

    Raises:
        BadInput: in place of an error of ours.
    """
    try:
        yield
    except ColibriError as error:
        if type(error) is not ColibriError:
            raise
        raise BadInput(error.what, where=error.where or str(folder), hint=error.hint or _AGAIN) from None


def _beside(elf: Path, suffix: str) -> str | None:
    """Text of a file of the link; a failed product link leaves its own, which hold for the oversize image too."""
    for path in (elf.with_suffix(suffix), elf.with_name(f"product{suffix}")):
        if path.is_file():
            return read_bounded(path, _TEXT_BYTES).decode(errors="replace")
    return None


def _match(usage: dict[str, int], layout: Layout) -> list[int]:
    """The linker's figures in the order of the regions; 0 where nothing is and it names no such region.

    Raises:
        ColibriError: it lacks one in which something is, or fills one that the board does not have.
    """

    def key(name: str) -> str:
        return name.casefold().replace("-", "_")

    printed = {key(name): used for name, used in usage.items()}
    used = {region.name for index, region in enumerate(layout.regions) if layout.used(index)}
    if missing := sorted(name for name in used if key(name) not in printed):
        raise ColibriError(f"the linker's table lacks regions that the image uses: {', '.join(missing)}")
    figures = [printed.pop(key(region.name), 0) for region in layout.regions]
    if strange := sorted(name for name, filled in printed.items() if filled):
        raise ColibriError(f"the linker filled regions that the board does not have: {', '.join(strange)}")
    return figures


def _region(index: int, layout: Layout, pieces: list[Piece], printed: list[int] | None, package: Package) -> RegionUse:
    region, used = layout.regions[index], layout.used(index)
    groups = grouped([piece for piece in pieces if piece.region == index], _predictions(index, layout, package))
    total = sum(group.bytes for group in groups)
    if total != used:
        raise ColibriError(f"rows sum to {in_bytes(total)}, the program headers to {used:,}", where=region.name)
    if printed is not None and printed[index] != used:
        raise ColibriError(
            f"the image has {in_bytes(used)}, the linker printed {printed[index]:,}", where=region.name, hint=_AGAIN
        )
    reserve = package.board.reserve if index == layout.home(Holds.DATA) else 0
    return RegionUse(
        name=region.name,
        kind=region.kind,
        origin=region.origin,
        length=region.length,
        limit=region.limit,
        reserve=reserve,
        used=used,
        printed=None if printed is None else printed[index],
        over=max(0, used + reserve - region.limit) if region.limit else 0,
        groups=groups,
        warn=region.warn,
    )


def _predictions(index: int, layout: Layout, package: Package) -> dict[GroupKind, int]:
    """What the generator expected in a region; nothing for a kind that it cannot know (0)."""
    estimate = package.code_estimate
    reserved = package.board.kind in (BoardKind.BARE, BoardKind.WASM)
    expected = (
        (GroupKind.CODE, Holds.CODE, estimate.code if estimate else 0),
        (GroupKind.TABLES, Holds.CODE, estimate.tables if estimate else 0),
        (GroupKind.DATA, Holds.DATA, estimate.data if estimate else 0),
        (GroupKind.WEIGHTS, Holds.WEIGHTS, package.model_bin_bytes),
        (GroupKind.STACK, Holds.STACK, package.board.stack if reserved else 0),
    )
    found = {kind: size for kind, what, size in expected if size and layout.home(what) == index}
    if (hot := package.hot_weights) is not None and hot.region == layout.regions[index].name:
        found[GroupKind.WEIGHTS] = found.get(GroupKind.WEIGHTS, 0) + hot.bytes
    if estimate and package.fast_code is not None and package.fast_code.region == layout.regions[index].name:
        found[GroupKind.CODE] = sum(estimate.kernels.get(name, 0) for name in package.fast_code.functions)
    if block := package.memory.in_region(layout.regions[index].name):
        figures = (
            (GroupKind.CONTEXT, block.context),
            (GroupKind.STATES, block.states),
            (GroupKind.ARENA, block.arena),
        )
        found.update({kind: size for kind, size in figures if size})
    return found
