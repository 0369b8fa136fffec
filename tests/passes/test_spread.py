"""Which weights go into the fast flash."""

from __future__ import annotations

import msgspec
import pytest
from small_models import ORACLE, load_graph

from colibri.boards.load import load_board
from colibri.boards.profile import Board
from colibri.errors import BadInput
from colibri.graph.graph import Graph, StateType
from colibri.graph.ops import Experts
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import Layouts, plan_layouts
from colibri.passes.spread import hot_weights

BOARD = load_board("stm32h750b-dk")


def model() -> tuple[Graph, Layouts]:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W8A8, StateType.F32)
    return graph, plan_layouts(graph, KernelSet(("portable",)))


def flash_of(size: int) -> Board:
    """The board with so much internal flash."""
    memory = tuple(msgspec.structs.replace(one, length=size) if one.name == "flash" else one for one in BOARD.memory)
    return msgspec.structs.replace(BOARD, memory=memory)


def experts_of(graph: Graph, layer: int) -> set[str]:
    op = next(op for op in graph.ops if isinstance(op, Experts) and op.layer == layer)
    return {weight for slots in op.experts() for weight in slots.values()}


def size_of(graph: Graph, layouts: Layouts, name: str) -> int:
    weight = graph.weights[name]
    return 4 * weight.values.size if isinstance(weight, Vector) else layouts.matrices[name].bytes


def test_only_where_a_second_flash_is_cheaper() -> None:
    assert BOARD.hot_region == "flash"
    assert load_board("nucleo-h743zi").hot_region == ""
    alike = msgspec.structs.replace(BOARD, memory=tuple(msgspec.structs.replace(one, cost=1) for one in BOARD.memory))
    assert alike.hot_region == ""
    graph, layouts = model()
    assert hot_weights(graph, layouts, alike, 0, {}) == frozenset()


def test_everything_when_it_fits_and_nothing_when_nothing_does() -> None:
    graph, layouts = model()
    assert hot_weights(graph, layouts, flash_of(1 << 20), 0, {}) == graph.weights.keys()
    assert hot_weights(graph, layouts, flash_of(1 << 20), 1 << 20, {}) == frozenset()


def test_what_every_token_reads_comes_before_experts() -> None:
    graph, layouts = model()
    experts = experts_of(graph, 0) | experts_of(graph, 1)
    embedding = {name for name in graph.weights if "embed" in name}
    others = sum(size_of(graph, layouts, name) for name in graph.weights.keys() - experts - embedding)
    hot = hot_weights(graph, layouts, flash_of(others + 2048), 0, {})  # with header and table of the file
    assert {"layers.0.q", "layers.1.o", "layers.0.router"} <= hot
    assert not embedding & hot
    for layer in (0, 1):  # whole layers of experts, or none of a layer
        assert experts_of(graph, layer) <= hot or not experts_of(graph, layer) & hot
    assert graph.weights.keys() - experts - embedding <= hot


def test_code_takes_its_part() -> None:
    graph, layouts = model()

    def taken(code: int) -> int:
        hot = hot_weights(graph, layouts, flash_of(40_000), code, {})
        return sum(size_of(graph, layouts, name) for name in hot)

    assert taken(30_000) < taken(0) <= 40_000


def test_pins() -> None:
    graph, layouts = model()
    one = sorted(experts_of(graph, 1))[0]
    hot = hot_weights(graph, layouts, flash_of(1 << 20), 0, {one: "qspi"})
    assert hot == graph.weights.keys() - experts_of(graph, 1)


def test_pins_cannot_part_the_experts_of_a_layer() -> None:
    graph, layouts = model()
    one, *_, other = sorted(experts_of(graph, 1))
    with pytest.raises(BadInput, match="the experts of a layer stay together"):
        hot_weights(graph, layouts, flash_of(1 << 20), 0, {one: "qspi", other: "flash"})
