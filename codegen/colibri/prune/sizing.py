"""What a model takes with fewer experts."""

from __future__ import annotations

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.emit.model_bin import plan_model_bin
from colibri.errors import printable
from colibri.generate import make_manifest
from colibri.graph.graph import Graph
from colibri.graph.ops import Experts
from colibri.options import Options
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import plan_layouts
from colibri.passes.prune import most_drops, without
from colibri.prune.statistics import Key
from colibri.recipe_file import ANY_HASH


class Sizing:
    """Bytes of `model.bin`, for kernels in plain C."""

    def __init__(self, checkpoint: Checkpoint, graph: Graph, options: Options) -> None:
        self._checkpoint, self._graph, self._options = checkpoint, graph, options
        self.least = self.without(most_drops(graph))

    def without(self, drops: dict[int, set[int]]) -> int:
        """With these experts gone, layer by layer."""
        return self.bytes(without(self._graph, drops), self._options)

    def bytes(self, graph: Graph, options: Options) -> int:
        """Of any graph."""
        name = printable(self._checkpoint.name)
        manifest = make_manifest(graph, name, options, ANY_HASH, self._checkpoint.licence(), self._checkpoint.origin())
        return plan_model_bin(graph, plan_layouts(graph, KernelSet(("portable",))), manifest, "").length

    def experts(self) -> dict[Key, int]:
        """What goes with each: its matrices, and its row of the router."""
        layouts = plan_layouts(self._graph, KernelSet(("portable",)))
        sizes = {}
        for op in self._graph.ops:
            if isinstance(op, Experts) and op.layer is not None:
                for expert in op.kept:
                    matrices = sum(layouts.matrices[name].bytes for name in expert.slots().values())
                    sizes[op.layer, expert.id] = matrices + 4 * op.width
        return sizes
