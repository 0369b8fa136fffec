"""The memory plan: every value read is the value that was written, whatever lies where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import ORACLE, SENSORS, load_graph, sensor

from colibri.boards.load import load_board
from colibri.graph.graph import Buffer, BufferKind, Graph, ModelKind, Op, State, StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import Layouts, plan_layouts
from colibri.passes.place import CONTEXT_BYTES, Placement, all_buffers, buffer_views, place, rooms, view_bytes
from colibri.passes.sharing import Room

EXTERNAL = (Graph.INPUT, Graph.OUTPUT)
PLAIN = Layouts({}, {})
ONE = [Room("ram", None)]


@dataclass(frozen=True)
class Touch(Op):
    """Reads and writes buffers; nothing else."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    inner: tuple[Buffer, ...] = ()

    def reads(self) -> tuple[str, ...]:
        return self.sources

    def writes(self) -> tuple[str, ...]:
        return self.targets

    def scratch(self) -> tuple[Buffer, ...]:
        return self.inner

    def signature(self) -> tuple[object, ...]:
        return ()

    def reference(self, run: object) -> None:
        raise NotImplementedError

    def emit(self, c: object) -> None:
        raise NotImplementedError


def sizes_of(buffer: Buffer, rows: int, stride: int, *, wide: bool = False) -> tuple[int, int]:
    """Bytes of the two arrays, 0 for one that there is not."""
    layouts = Layouts({}, {buffer.name: stride}, wide)
    sizes = [view_bytes(view) for view in buffer_views(buffer, rows, layouts, 0)]
    return sizes[0], sum(sizes[1:])


def check_plan(graph: Graph, placement: Placement, rows: int, strides: dict[str, int]) -> None:
    """Play the program on a block where each byte knows who wrote it last."""
    blocks = placement.memory.blocks
    parts = {
        name: sizes_of(buffer, rows, strides.get(name, buffer.width)) for name, buffer in all_buffers(graph).items()
    }
    owner: dict[tuple[int, int], tuple[str, int]] = {}
    stamps: dict[str, tuple[str, int]] = {}

    def cells(name: str) -> list[tuple[int, int]]:
        where, block = placement.buffers[name], blocks[placement.buffers[name].block]
        size = sum(parts[name])
        assert where.first % 16 == 0 and where.first >= block.total - block.arena
        assert where.first + size <= block.total
        if parts[name][1]:
            assert where.second == where.first + parts[name][0] and where.second % 16 == 0
        else:
            assert where.second == -1
        return [(where.block, cell) for cell in range(where.first, where.first + size)]

    for number, op in enumerate(graph.ops):
        inputs = [name for name in op.reads() if name not in EXTERNAL]
        outputs = [name for name in op.writes() if name not in EXTERNAL]
        # Scratch and outputs may be written before the last input is read.
        for name in [scratch.name for scratch in op.scratch()] + [name for name in outputs if name not in inputs]:
            for cell in cells(name):
                owner[cell] = (name, number)
            stamps[name] = (name, number)
        for name in inputs:
            assert all(owner[cell] == stamps[name] for cell in cells(name)), f"op {number} finds {name} overwritten"
        for name in [name for name in outputs if name in inputs]:
            for cell in cells(name):
                owner[cell] = (name, number)
            stamps[name] = (name, number)
        live = [scratch.name for scratch in op.scratch()] + outputs
        for name in live:  # all that the op writes is there at its end
            assert all(owner[cell] == stamps[name] for cell in cells(name)), f"op {number} loses {name}"


def check_spans(graph: Graph, placement: Placement) -> None:
    blocks = placement.memory.blocks
    assert [block.context for block in blocks] == [CONTEXT_BYTES, *([0] * (len(blocks) - 1))]
    for index, block in enumerate(blocks):
        assert block.total % 16 == 0 and block.total > 0
        end = block.context
        for state in graph.states.values():
            if placement.states[state.name].block == index:
                assert placement.states[state.name].first == end and end % 16 == 0
                end += -(-state.bytes // 16) * 16
        assert end == block.context + block.states
        for span in block.spans:
            assert span.offset % 16 == 0 and span.offset + span.bytes <= block.total
        arena = [span for span in block.spans if span.kind == "arena"]
        assert block.bound <= block.arena <= sum(span.bytes for span in arena)
        assert block.bound >= max((span.bytes for span in arena), default=0)
    assert sorted(placement.buffers) == sorted(
        span.name for block in blocks for span in block.spans if span.kind == "arena"
    )


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    """A random program in which every buffer is written before it is read."""
    graph = Graph("random", ModelKind.SAMPLES, 4, 4, 0, "")
    kinds = [BufferKind.FLOAT, BufferKind.Q8, BufferKind.Q16, BufferKind.ROUTE]
    names = [f"b{i}" for i in range(draw(st.integers(1, 6)))]
    for name in names:
        graph.buffer(name, draw(st.sampled_from(kinds)), draw(st.integers(1, 9)), draw(st.sampled_from([0, 0, 1])))
    ready: list[str] = []
    for number in range(draw(st.integers(1, 12))):
        sources = draw(st.lists(st.sampled_from(ready), max_size=2, unique=True)) if ready else []
        targets = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        inner = ()
        if draw(st.booleans()):
            inner = (Buffer(f"scratch{number % 2}", BufferKind.FLOAT, draw(st.integers(1, 9)), 1),)
        graph.ops.append(Touch(None, "", tuple(sources), tuple(targets), inner))
        ready += [name for name in targets if name not in ready]
    for name in draw(st.lists(st.sampled_from(["s0", "s1"]), unique=True)):
        graph.states[name] = State(name, draw(st.sampled_from(list(StateType))), draw(st.integers(1, 5)), 3)
    return graph


@settings(max_examples=300, deadline=None)
@given(programs(), st.integers(1, 4), st.lists(st.integers(0, 60), max_size=2))
def test_random_programs_keep_their_values(graph: Graph, rows: int, sizes: list[int]) -> None:
    spaces = [*(Room(f"r{i}", 16 * size, 1 + i) for i, size in enumerate(sizes)), Room("last", None, 9)]
    placement = place(graph, rows, PLAIN, spaces)
    check_plan(graph, placement, rows, {})
    check_spans(graph, placement)
    for room in spaces[:-1]:
        block = placement.memory.in_region(room.name)
        assert block is None or room.bytes is None or block.total <= room.bytes


def test_the_check_sees_an_overlap() -> None:
    graph = Graph("bad", ModelKind.SAMPLES, 4, 4, 0, "")
    for name in ("a", "b", "c"):
        graph.buffer(name, BufferKind.FLOAT, 4)
    graph.ops += [Touch(None, "", (), ("a",)), Touch(None, "", (), ("b",)), Touch(None, "", ("a", "b"), ("c",))]
    placement = place(graph, 1, PLAIN, ONE)
    check_plan(graph, placement, 1, {})
    wrong = replace(placement, buffers={**placement.buffers, "b": placement.buffers["a"]})
    with pytest.raises(AssertionError, match="op 2 finds a overwritten"):
        check_plan(graph, wrong, 1, {})


@pytest.mark.parametrize("rows", [1, 2, 7, 16])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize(
    "path",
    [ORACLE / "mixtral-base", ORACLE / "mixtral-sharded-swa", *(sensor(name) for name in SENSORS)],
    ids=lambda path: path.name,
)
def test_real_models_keep_their_values(path: Path, scheme: Scheme, rows: int) -> None:
    graph = load_graph(path, scheme, StateType.F16)
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    for spaces in (ONE, [Room("fast", 700), Room("slow", None, 3)]):
        placement = place(graph, rows, layouts, spaces)
        check_plan(graph, placement, rows, layouts.strides)
        check_spans(graph, placement)
    (block,) = place(graph, rows, layouts, ONE).memory.blocks
    assert block.arena < sum(span.bytes for span in block.spans if span.kind == "arena")  # something is shared
    assert block.arena == block.bound


def test_two_that_never_meet_share_one_place() -> None:
    graph = Graph("chain", ModelKind.SAMPLES, 4, 4, 0, "")
    for name in ("a", "b", "c", "d"):
        graph.buffer(name, BufferKind.FLOAT, 64)
    previous: tuple[str, ...] = ()
    for name in ("a", "b", "c", "d"):
        graph.ops.append(Touch(None, "", previous, (name,)))
        previous = (name,)
    assert place(graph, 1, PLAIN, ONE).memory.blocks[0].arena == 2 * 64 * 4


def test_states_do_not_depend_on_the_rows_and_halve_in_f16() -> None:
    wide, narrow = (load_graph(ORACLE / "mixtral-base", Scheme.W8A8, kv) for kv in (StateType.F32, StateType.F16))
    layouts = [plan_layouts(graph, KernelSet(("portable",))) for graph in (wide, narrow)]

    def states(graph: Graph, rows: int) -> int:
        return place(graph, rows, layouts[graph is narrow], ONE).memory.blocks[0].states

    assert states(wide, 1) == states(wide, 9) == 2 * states(narrow, 1)


def test_hot_buffers_are_near_and_states_fill_what_is_left() -> None:
    """On the STM32H7 the products' inputs are in DTCM, the states of the layers in both."""
    board = load_board("nucleo-h743zi")
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W4A8, StateType.F32)
    layouts = plan_layouts(graph, KernelSet(board.kernels))
    spaces = rooms(board, graph, 1)
    assert [(room.name, room.cost) for room in spaces] == [("dtcm", 1), ("axi", 2), ("sram1", 3), ("sram2", 3)]
    whole = place(graph, 1, layouts, spaces).memory
    assert [block.name for block in whole.blocks] == ["memory"]  # it fits into DTCM
    memory = place(graph, 1, layouts, [Room("dtcm", whole.total - 16), Room("axi", None, 2)]).memory
    assert [block.name for block in memory.blocks] == ["memory_dtcm", "memory_axi"]
    hottest = max((span for block in memory.blocks for span in block.spans), key=lambda span: span.heat / span.bytes)
    assert hottest.name == "attended" and hottest in memory.blocks[0].spans


def test_scales_of_int8_states_stand_behind_their_elements() -> None:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W4A8, StateType.I8, context=10)
    memory = place(graph, 1, plan_layouts(graph, KernelSet(("portable",))), ONE).memory
    spans = {span.name: span for block in memory.blocks for span in block.spans}
    key, state = spans["layers.0.key"], graph.states["layers.0.key"]
    assert [(view.name, view.type, view.shape) for view in key.views] == [
        ("", "int8", (10, state.width)),
        ("scale", "bf16", (10, state.pieces)),
    ]
    assert state.pieces == 2 and key.views[1].offset == key.offset + 10 * state.width
    assert key.bytes == 10 * (state.width + 2 * state.pieces)
    assert spans["scores"].views[0].type == "int32" and spans["query"].views[0].type == "int8"


def test_a_region_that_begins_between_two_places_for_a_block_has_less_room() -> None:
    board = load_board("nucleo-h743zi")
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W4A8, StateType.F32)
    odd = tuple(msgspec.structs.replace(region, origin=region.origin + 4) for region in board.memory)
    before, after = rooms(board, graph, 1), rooms(msgspec.structs.replace(board, memory=odd), graph, 1)
    assert [(one.bytes or 0) - (two.bytes or 0) for one, two in zip(before, after, strict=True)] == [12] * len(before)


def test_pins_are_obeyed_even_when_that_is_slow() -> None:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W8A8, StateType.F32)
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    spaces = [Room("fast", None), Room("slow", None, 5)]
    memory = place(graph, 1, layouts, spaces, {"x": "slow", "layers.0.key": "slow"}).memory
    slow = memory.in_region("slow")
    assert slow is not None and {span.name for span in slow.spans} == {"x", "layers.0.key"}


@pytest.mark.parametrize(
    ("kind", "width", "rows", "fixed", "stride", "sizes"),
    [
        (BufferKind.FLOAT, 5, 3, 0, 5, (64, 0)),
        (BufferKind.FLOAT, 5, 3, 1, 5, (32, 0)),
        (BufferKind.ROUTE, 2, 3, 0, 2, (32, 32)),
        (BufferKind.Q8, 20, 3, 0, 32, (96, 16)),
        (BufferKind.Q16, 20, 5, 0, 32, (320, 32)),
        (BufferKind.Q16, 20, 5, 1, 32, (64, 16)),
    ],
)
def test_bytes_of_a_buffer(
    kind: BufferKind, width: int, rows: int, fixed: int, stride: int, sizes: tuple[int, int]
) -> None:
    """4 a float, an index, a weight or a scale; each array to a multiple of 16."""
    assert sizes_of(Buffer("b", kind, width, fixed), rows, stride) == sizes


def test_scratch_of_one_name_is_as_large_as_its_largest_user_asks() -> None:
    for widths in ((3, 40), (40, 3)):
        graph = Graph("scratch", ModelKind.SAMPLES, 4, 4, 0, "")
        graph.buffer("a", BufferKind.FLOAT, 4)
        for width in widths:
            graph.ops.append(Touch(None, "", (), ("a",), (Buffer("scratch", BufferKind.FLOAT, width, 1),)))
        span = next(span for span in place(graph, 1, PLAIN, ONE).memory.blocks[0].spans if span.name == "scratch")
        assert span.bytes == 160


def test_scratch_has_room_for_layers_that_take_all_rows_at_once_and_for_those_that_do_not() -> None:
    """Whichever comes first: every row of 16 in the one, in the other one row, or 2 pieces of each."""
    all_rows, one_row = Buffer("hidden", BufferKind.FLOAT, 16), Buffer("hidden", BufferKind.FLOAT, 20, fixed_rows=1)
    pieces = Buffer("hidden", BufferKind.FLOAT, 16, pieces=2)
    for first, last, size in ((all_rows, one_row, 8 * 20), (all_rows, pieces, 8 * 2 * 16), (one_row, one_row, 20)):
        for scratches in ((first, last), (last, first)):
            graph = Graph("scratch", ModelKind.SAMPLES, 4, 4, 0, "")
            graph.buffer("a", BufferKind.FLOAT, 4)
            graph.ops += [Touch(None, "", (), ("a",), (scratch,)) for scratch in scratches]
            spans = place(graph, 8, PLAIN, ONE).memory.blocks[0].spans
            assert next(span for span in spans if span.name == "hidden").bytes == 4 * size
