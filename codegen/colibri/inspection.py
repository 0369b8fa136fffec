"""What a checkpoint is, and which boards could hold it: predicted before any compiler runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, Holds
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.emit.literals import comment_text
from colibri.emit.model_bin import plan_model_bin
from colibri.errors import UsageError, printable
from colibri.generate import build_graph, make_manifest
from colibri.graph.attend_int8 import too_long_for_int8
from colibri.graph.graph import Graph, StateType
from colibri.graph.ops import Experts
from colibri.graph.scheme import SCHEMES
from colibri.options import Options
from colibri.package import Memory
from colibri.passes.grouping import group_experts
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import plan_layouts
from colibri.passes.place import place_on, rooms
from colibri.passes.sharing import Room
from colibri.recipe import recipe_text
from colibri.recipe_file import ANY_HASH

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


PORTABLE = ("portable",)  # kernels in plain C


class Fit(msgspec.Struct, frozen=True):
    """One scheme on one board.

    Attributes:
        weights: bytes of model.bin, with all weights in it: a board with two kinds of flash gets a hot.bin besides.
        memory: bytes of the caller's memory, in all blocks.
        flash_left: bytes that stay for code; negative when the weights alone are too large; None without a limit.
        ram_left: bytes left in all regions for the memory, less stack, variables and reserve; negative by the sum of
            what does not fit into its region; None without a limit.
    """

    board: str
    scheme: str
    kv: str
    weights: int
    memory: int
    flash_left: int | None
    ram_left: int | None

    @property
    def fits(self) -> bool:
        """Whether weights and block fit; code is not counted."""
        return (self.flash_left is None or self.flash_left > 0) and (self.ram_left is None or self.ram_left >= 0)


class Part(msgspec.Struct, frozen=True):
    """Weights of one kind in all layers: ``experts``, ``attention``, ….

    Attributes:
        bytes: scheme to bytes in model.bin, packed for kernels in plain C; without alignment.
    """

    name: str
    bytes: dict[str, int]


class Inspection(msgspec.Struct, frozen=True):
    """Facts of a checkpoint; sizes in bytes.

    Attributes:
        active: parameters without those of the experts that do not run for a token or a sample.
    """

    name: str
    family: str
    kind: str
    parameters: int
    inputs: int
    outputs: int
    context: int
    experts: tuple[int, ...]
    top_k: int
    routing: str
    licence: str | None
    dropped: tuple[str, ...]
    fits: tuple[Fit, ...]
    warnings: tuple[str, ...] = ()
    source: int = 0
    origin: str | None = None
    active: int = 0
    parts: tuple[Part, ...] = ()

    def to_json(self) -> bytes:
        """Sorted keys, ending in a newline."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"


def inspect_checkpoint(
    path: Path,
    context: int | None,
    source: int | None = None,
    recipes: Sequence[Options] = (),
    boards: Sequence[Board] = (),
) -> Inspection:
    """Open a checkpoint and plan it for every board in every recipe.

    Args:
        context: positions; None means the checkpoint's maximum, or what a recipe says.
        source: tokens of an encoder; None means as many as the context, or what a recipe says.
        recipes: without any every usual scheme, with every type of states.
        boards: without any all that come with Colibri.

    Raises:
        BadInput: the checkpoint cannot be used.
        UsageError: a source for a model without an encoder, a context beside a recipe that has one, or a recipe for
            another model.
    """
    whole = import_graph(Checkpoint.open(path), ImportOptions(context, source=source))
    named = [(recipe_text(options), _with_lengths(options, context, source)) for options in recipes] or [
        (str(scheme), Options(scheme, kv, context=context, source=source)) for scheme in SCHEMES for kv in _types(whole)
    ]
    boards = boards or [load_board(name) for name in board_names()]
    fits: list[Fit] = []
    warnings: dict[str, None] = {}
    parts: dict[str, dict[str, int]] = {}
    for scheme, options in named:
        checkpoint = Checkpoint.open(path)
        graph = build_graph(checkpoint, replace(options, folds={}, calibration=None))  # neither changes a size
        rows = options.prefill or options.batch or 1
        warnings |= dict.fromkeys(graph.warnings)
        name = printable(checkpoint.name)
        manifest = make_manifest(graph, name, options, ANY_HASH, checkpoint.licence(), checkpoint.origin())
        packed, planned = {}, dict[Hashable, Memory]()
        counted = any(scheme in sizes for sizes in parts.values())  # with another type of states
        for kernels in dict.fromkeys([*(board.kernels for board in boards), PORTABLE]):
            folders = KernelSet(kernels)
            layouts = plan_layouts(graph, folders)
            file = plan_model_bin(graph, layouts, manifest, "")
            packed[kernels] = group_experts(graph, folders, rows), layouts, file.length
            if kernels == PORTABLE and not counted:
                for section in file.sections:
                    sizes = parts.setdefault(_kind(section.part), {})
                    sizes[scheme] = sizes.get(scheme, 0) + section.bytes
        for board in boards:
            grouped, layouts, weights = packed[board.kernels]
            left = rooms(board, graph, rows, emulated=False)
            key = (board.kernels, *rooms(board, graph, rows), *left)
            memory = planned.get(key) or place_on(board, grouped, rows, layouts, {}).memory
            planned[key] = memory  # boards with equal rooms have equal plans
            fits.append(_fit(board, scheme, str(options.kv) if graph.states else "", weights, memory, left))
    return Inspection(
        name=name,
        family=whole.family,
        kind=str(whole.kind),
        parameters=whole.parameters(),
        inputs=whole.input_width,
        outputs=whole.output_width,
        context=whole.context,
        source=whole.source,
        active=_active(whole),
        parts=tuple(Part(name, parts[name]) for name in sorted(parts, key=lambda name: name == "other")),
        experts=whole.expert_counts(),
        top_k=max((op.top_k for op in whole.ops if isinstance(op, Experts)), default=1),
        routing=whole.routing,
        licence=checkpoint.licence(),
        origin=checkpoint.origin(),
        dropped=tuple(whole.dropped),
        warnings=tuple(warnings),
        fits=tuple(fits),
    )


def _types(graph: Graph) -> list[StateType]:
    """What its states may hold."""
    if not graph.states:
        return [StateType.F32]
    return [kv for kv in StateType if kv is not StateType.I8 or not too_long_for_int8(graph.states.values())]


def _with_lengths(options: Options, context: int | None, source: int | None) -> Options:
    """The recipe, with the lengths of the command line where it says none."""
    for name, own, said in (("--context", options.context, context), ("--source", options.source, source)):
        if None not in (own, said):
            raise UsageError("is a part of the recipe", where=f"{name} beside --recipe", hint="say it in one of them")
    return replace(options, context=context or options.context, source=source or options.source)


def _kind(part: str) -> str:
    """
    >>> _kind("layer 3 / expert 5"), _kind("layer 0 / norms"), _kind("embedding"), _kind("manifest")
    ('experts', 'norms', 'embedding', 'other')
    """
    kind = part.rpartition(" / ")[2]
    return "experts" if kind.startswith("expert ") else "other" if kind in ("header and table", "manifest") else kind


def _active(graph: Graph) -> int:
    """Parameters without those of experts that rest: of each layer's, ``top_k`` run."""
    resting = 0
    for op in graph.ops:
        if experts := op.experts():
            assert isinstance(op, Experts)
            whole = sum(graph.weights[name].parameters for slots in experts for name in slots.values())
            resting += whole * (len(experts) - op.top_k) // len(experts)
    return graph.parameters() - resting


def _fit(board: Board, scheme: str, kv: str, weights: int, memory: Memory, left: Sequence[Room]) -> Fit:
    flash = sum(region.limit for region in board.memory if Holds.WEIGHTS in region.holds)
    return Fit(
        board.id,
        scheme,
        kv,
        weights,
        memory.total,
        flash - weights if flash else None,
        ram_left(memory, left),
    )


def ram_left(memory: Memory, left: Sequence[Room]) -> int | None:
    """See `Fit`.

    Args:
        left: what each region has for the memory.
    """
    spare = []
    for room in left:
        if room.bytes is not None:
            block = memory.in_region(room.name)
            spare.append(room.bytes - (block.total if block else 0))
    if not spare:
        return None
    return sum(size for size in spare if size < 0) or sum(spare)


def print_inspection(facts: Inspection, console: Console) -> None:
    """Facts, the boards that have room for every scheme, for some and for none."""
    shape = (
        f"vocabulary {facts.outputs:,}, context {facts.context:,}"
        + (f", source {facts.source:,}" if facts.source else "")
        if facts.kind == "tokens"
        else f"{facts.inputs} inputs, {facts.outputs} outputs"
    )
    console.print(f"{comment_text(facts.name)}: {facts.family}, {facts.parameters:,} parameters, {shape}", markup=False)
    unit = "token" if facts.kind == "tokens" else "sample"
    share = f" ({facts.active / facts.parameters:.0%})" if facts.parameters else ""
    console.print(f"active for a {unit}: {facts.active:,} parameters{share}", markup=False)
    counts = f"{'/'.join(map(str, facts.experts))}, top {facts.top_k}"
    if set(facts.experts) == {1}:
        counts = f"one in each of {len(facts.experts)} layers"
    console.print(f"experts: {counts}: {facts.routing}", markup=False)
    if facts.origin:
        console.print(f"origin: {comment_text(facts.origin, 400)}", markup=False)
    if facts.licence:
        console.print(f"licence: {comment_text(facts.licence)}", markup=False)
    for note in facts.dropped:
        console.print(f"left out: {comment_text(note, 200)}", markup=False)
    for warning in facts.warnings:
        console.print(f"warning: {warning}", markup=False)
    console.print()
    console.print(_sizes(facts))
    console.print()
    _print_fits(facts, console)
    console.print("weights and memory only: code takes some 10 KB of flash more, see `colibri build`")
    if facts.kind == "tokens" and any(fit.ram_left is not None and fit.ram_left < 0 for fit in facts.fits):
        unless = ", where a recipe has no others" if any("context=" in fit.scheme for fit in facts.fits) else ""
        fewer = "fewer tokens take less: --context" + (" and --source" if facts.source else "")
        console.print(f"memory is for {facts.context:,} tokens{unless}; {fewer}")


_WIDEST = 100  # columns of a list of names


def _table(first: str, schemes: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for scheme in schemes:
        table.add_column(scheme.replace(":", ":\n"), justify="right", no_wrap=True)
    return table


def _sizes(facts: Inspection) -> Table:
    schemes = list(dict.fromkeys(fit.scheme for fit in facts.fits))
    sizes = _table("bytes", schemes)
    for part in facts.parts:
        sizes.add_row(f"  {part.name}", *(f"{part.bytes.get(scheme, 0):,}" for scheme in schemes), style="dim")

    def span(scheme: str, size: Callable[[Fit], int], kv: str | None = None) -> str:
        """Of all boards, whose kernels may want the weights and buffers packed in different ways."""
        found = [size(fit) for fit in facts.fits if fit.scheme == scheme and kv in (None, fit.kv)]
        if not found:
            return "–"
        return f"{min(found):,}" if min(found) == max(found) else f"{min(found):,}\nto {max(found):,}"

    sizes.add_row("model.bin", *(span(scheme, lambda fit: fit.weights) for scheme in schemes))
    for kv in dict.fromkeys(fit.kv for fit in facts.fits):
        name = f"memory, kv {kv}" if kv else "memory"
        sizes.add_row(name, *(span(scheme, lambda fit: fit.memory, kv) for scheme in schemes))
    return sizes


def _print_fits(facts: Inspection, console: Console) -> None:
    """Lists of the boards that have room for every scheme and for none, and a row for each of the others."""
    schemes = list(dict.fromkeys(fit.scheme for fit in facts.fits))
    every: list[str] = []
    none: list[str] = []
    some = _table("fits in some", schemes)
    for board in dict.fromkeys(fit.board for fit in facts.fits):
        fits = [fit for fit in facts.fits if fit.board == board]
        if all(fit.fits for fit in fits):
            every.append(board)
        elif any(fit.fits for fit in fits):
            some.add_row(board, *(_verdict([fit for fit in fits if fit.scheme == scheme]) for scheme in schemes))
        else:
            lack = _lack(min(fits, key=_missing))
            none.append(f"{board} ({lack})" if lack else board)
    width = min(console.width, _WIDEST)
    if every:
        console.print(f"fits in every scheme: {', '.join(every)}", width=width)
    if some.row_count:
        console.print(some)
    if none:
        console.print(f"fits in none, lacks at least: {', '.join(none)}", width=width)
    if some.row_count or none:
        console.print("what would make it fit: see `colibri explain`")


def _verdict(fits: Sequence[Fit]) -> str:
    """``yes``, the type of states that it takes, or ``no``. Code is not counted: it takes some 10 KB more."""
    serving = [fit.kv for fit in fits if fit.fits]
    if len(serving) == len(fits):
        return "yes"
    return f"kv {serving[0]}" if serving else "no"


def _missing(fit: Fit) -> int:
    """Bytes that have no room."""
    return sum(-left for left in (fit.flash_left, fit.ram_left) if left is not None and left < 0)


def _lack(fit: Fit) -> str:
    lacks = [
        f"{_short(-left)} {name}"
        for name, left in (("flash", fit.flash_left), ("RAM", fit.ram_left))
        if left is not None and left < 0
    ]
    return " and ".join(lacks)


def _short(size: int) -> str:
    """KB or MB, rounded up."""
    kib = -(-size // 1024)
    return f"{kib}K" if kib < 1024 else f"{-(-kib // 1024)}M"
