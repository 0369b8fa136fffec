"""Walk a graph and make the pieces of `model.c`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from colibri.emit.c_block import Block, BlockFunction, Field, weight_doc
from colibri.emit.c_instances import Instances
from colibri.emit.c_module import CScope
from colibri.emit.c_shapes import Generics, Instance
from colibri.emit.model_bin import ModelBin
from colibri.graph.graph import Graph, ModelKind, Op, StateType
from colibri.graph.weights import Vector
from colibri.optimise import Optimise
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import Layouts
from colibri.passes.place import Placement, all_buffers, buffer_views
from colibri.passes.share import jobs

FILES = ("FROM_MODEL", "FROM_HOT")


@dataclass(frozen=True)
class Step:
    """A stretch of the program: rows ``first .. first + count`` of a block's descriptor table."""

    block: Block
    first: int
    count: int


@dataclass(frozen=True)
class ArenaEntry:
    """A constant of an arena enum."""

    name: str
    offset: int
    doc: str


@dataclass(frozen=True)
class Arena:
    """What is in one block of memory; ``index`` is the constant for it when there are several."""

    index: str
    region: str
    entries: list[ArenaEntry]


@dataclass(frozen=True)
class Module:
    """Everything that the template of `model.c` prints.

    Attributes:
        row_counts: numbers of rows of a call that there are functions for, the most first.
        variable_rows: whether one function takes any number of rows, up to the only count.
    """

    headers: list[str]
    instances: list[Instance]
    blocks: list[Block]
    steps: list[Step]
    arenas: list[Arena]
    row_counts: tuple[int, ...]
    variable_rows: bool = False

    def kernels(self) -> list[set[str]]:
        """For each op of the graph, the kernels that it calls for whatever number of rows."""
        found: list[set[str]] = []
        for step in self.steps:
            functions = step.block.functions.values()
            found += [set().union(*one) for one in zip(*(each.calls for each in functions), strict=True)] * step.count
        return found

    def blocks_of_ops(self) -> list[str]:
        """For each op of the graph, the name of its block."""
        return [step.block.name for step in self.steps for _ in range(step.count) for _ in step.block.ops]

    def calls(self) -> list[list[str]]:
        """For each op of the graph, the kernels that it calls for one token or one call of forward."""
        calls = []
        for step in self.steps:
            smallest = step.block.functions[min(step.block.functions)]
            calls += smallest.calls * step.count
        return calls


def build_module(
    graph: Graph,
    layouts: Layouts,
    placement: Placement,
    kernels: KernelSet,
    files: Sequence[ModelBin],
    rows: int,
    optimise: Optimise = Optimise.SPEED,
) -> Module:
    """Generate C for calls of ``rows`` rows, and of one row where a token model also steps.

    Args:
        files: model.bin and, if there is one, hot.bin.
        optimise: for speed with a function for each shape and number of rows, for size with one for all.
    """
    tokens, generics = graph.kind is ModelKind.TOKENS, Generics() if optimise is Optimise.SIZE else None
    variable = generics is not None and tokens and rows > 1
    instances = Instances(kernels, generics, loops=generics is not None and rows > 1)
    steps, blocks = _find_blocks(graph, placement, files)
    row_counts = (rows,) if rows == 1 or variable or not tokens else (rows, 1)
    for block in blocks:
        last = block.is_output and tokens
        for count in (1,) if last else row_counts:
            block.functions[count] = BlockFunction()
            scope = CScope(graph, layouts, placement, instances, block, count, variable=variable and not last)
            for job in jobs(block.ops):
                scope.emit(job)
    if generics is not None:
        _resolve(generics, blocks)
    return Module(
        instances.order(),
        list(instances.made.values()) if generics is None else generics.made,
        blocks,
        steps,
        _arenas(graph, layouts, placement, rows),
        row_counts,
        variable,
    )


def _resolve(generics: Generics, blocks: list[Block]) -> None:
    """Make the functions that blocks call, and name them there."""
    generics.finish()
    for function in (one for block in blocks for one in block.functions.values()):
        function.lines = [generics.resolved(line) for line in function.lines]
        function.calls = [generics.called(names) for names in function.calls]


def _find_blocks(graph: Graph, placement: Placement, files: Sequence[ModelBin]) -> tuple[list[Step], list[Block]]:
    by_signature: dict[tuple[object, ...], Block] = {}
    steps: list[Step] = []
    left = graph.encoder
    for layer, ops in graph.layers():
        encoder = left > 0
        left -= len(ops)
        signature = (encoder, layer is not None, *((op.signature(), _formats(graph, op)) for op in ops))
        block = by_signature.get(signature)
        if block is None:
            block = Block(_block_name(layer, encoder, ops, list(by_signature.values())), ops, encoder)
            by_signature[signature] = block
        block.rows_of.append(_descriptor(graph, block, ops, placement, files))
        if steps and steps[-1].block is block:
            steps[-1] = Step(block, steps[-1].first, steps[-1].count + 1)
        else:
            steps.append(Step(block, len(block.rows_of) - 1, 1))
    blocks = list(by_signature.values())
    for block in blocks:
        _name_homes(block, placement)
    return steps, blocks


def _formats(graph: Graph, op: Op) -> tuple[str, ...]:
    """Of the op's matrices, those of experts being alike for all of them; and where scales of states begin."""
    names = [*op.weights().values(), *(op.experts()[0].values() if op.experts() else ())]
    weights = [graph.weights[name] for name in names]
    states = [graph.states[name] for name in op.states().values()]
    return (
        *(str(weight.coding) for weight in weights if not isinstance(weight, Vector)),
        *(str(state.scales_at) for state in states if state.type is StateType.I8),
    )


def _name_homes(block: Block, placement: Placement) -> None:
    """What lies in different places for different layers needs a member that says where."""
    states = {slot: [placement.block_constant(home) for home in homes] for slot, homes in block.homes.items()}
    for what, places in (("memory block", states), ("file", block.files)):
        for slot, names in places.items():
            if len(set(names)) > 1:
                member = f"{slot}_in"
                block.members[member] = Field(member, f"{what} of {slot}")
                for row, name in zip(block.rows_of, names, strict=True):
                    row[member] = name


def _block_name(layer: int | None, encoder: bool, ops: list[Op], made: list[Block]) -> str:
    kind = "layer" if layer is not None else "input" if any(Graph.INPUT in op.reads() for op in ops) else "output"
    name = f"encoder_{kind}" if encoder else kind
    same = sum(block.name.startswith(name) for block in made)
    return name if same == 0 else f"{name}_{same + 1}"


def _descriptor(
    graph: Graph, block: Block, ops: list[Op], placement: Placement, files: Sequence[ModelBin]
) -> dict[str, int | str | list[int]]:
    row: dict[str, int | str | list[int]] = {}
    for op in ops:
        for slot, name in op.weights().items():
            block.members.setdefault(slot, Field(slot, weight_doc(graph, name)))
            file, offset = _weight_at(name, files)
            if slot not in row:
                block.files.setdefault(slot, []).append(file)
            if row.setdefault(slot, offset) != offset:
                raise ValueError(f"two weights of a layer share the slot {slot}")
        for slot, name in op.states().items():
            state = graph.states[name]
            block.members.setdefault(slot, Field(slot, f"state, {state.type} [{state.capacity}, {state.width}]"))
            place = placement.states[name]
            if slot not in row:
                block.homes.setdefault(slot, []).append(place.block)
            if row.setdefault(slot, place.first) != place.first:
                raise ValueError(f"two states of a layer share the slot {slot}")
        if experts := op.experts():
            block.members.setdefault("experts", Field("experts", ", ".join(experts[0]), len(experts)))
            starts = [_weight_at(next(iter(slots.values())), files) for slots in experts]
            row["experts"] = [offset for _, offset in starts]
            block.files.setdefault("experts", []).append(starts[0][0])
    return row


def _weight_at(name: str, files: Sequence[ModelBin]) -> tuple[str, int]:
    """C name of the file that a weight is in (empty when there is only one), and its offset there."""
    index = next(index for index, file in enumerate(files) if name in file.offsets)
    return FILES[index] if len(files) > 1 else "", files[index].offsets[name]


def _arenas(graph: Graph, layouts: Layouts, placement: Placement, rows: int) -> list[Arena]:
    arenas = [
        Arena(placement.block_constant(index), block.region, []) for index, block in enumerate(placement.memory.blocks)
    ]
    buffers = all_buffers(graph)
    for name, place in sorted(placement.buffers.items(), key=lambda item: (item[1].first, item[0])):
        for view in buffer_views(buffers[name], rows, layouts, place.first):
            suffix = f"_{view.name.upper()}" if view.name else ""
            doc = f"{view.type} {''.join(f'[{extent}]' for extent in view.shape)}"
            arenas[place.block].entries.append(ArenaEntry(f"AT_{name.upper()}{suffix}", view.offset, doc))
    return arenas
