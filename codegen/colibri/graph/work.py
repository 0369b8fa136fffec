"""How many multiply-adds a step takes, from its shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.graph.graph import Graph, Op
from colibri.graph.ops import Attention, Experts, LatentAttention, StateAttention


@dataclass(frozen=True)
class Work:
    """Multiply-adds of one row.

    Attributes:
        macs: in matrix products, whatever the row.
        macs_per_position: for each position in reach, this one included.
        reach: most positions in reach; 0 when there are none.
    """

    macs: int = 0
    macs_per_position: int = 0
    reach: int = 0


def work(graph: Graph, op: Op) -> Work:
    """The multiply-adds of an op: its products (of experts, those that run), q.k and the sum over values.

    Norms, rotations, softmax and activations count nothing: no two people count them alike.
    """
    products = sum(_size(graph, product.weight) for product in op.products())
    if isinstance(op, Experts):
        return Work(macs=products * op.top_k // len(op.kept))
    if isinstance(op, LatentAttention):
        return Work(macs_per_position=op.heads * (2 * op.rank + op.rope_dim), reach=op.capacity)
    if isinstance(op, Attention | StateAttention):
        return Work(macs_per_position=2 * op.heads * op.head_dim, reach=op.capacity)
    return Work(macs=products)


def _size(graph: Graph, name: str) -> int:
    n, k = graph.matrix(name).shape
    return n * k
