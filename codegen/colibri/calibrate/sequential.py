"""Quantise with calibration: matrix after matrix, each for what the matrices before it have become.

Two runs go through the model side by side, op by op: the model as it was (in integers of 16 bits) and as it will be.
When the second comes to a matrix, the matrix is rounded for the rows that arrive there, so that its outputs are as near
to those of the first run as they can be: what the layers before err is made good as far as it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from colibri.calibrate.collect import WIDEST, collect
from colibri.calibrate.data import CalibrationData, Rounding
from colibri.calibrate.inputs import Rows, inputs_of, same_rows
from colibri.calibrate.statistics import floats, mean_product
from colibri.calibrate.wide import wide_copy
from colibri.errors import BadInput
from colibri.graph.coding import Coding, WeightFormat
from colibri.graph.float32 import Float
from colibri.graph.graph import Graph, Op
from colibri.graph.interpret import Quantised, Reference, Run
from colibri.graph.ops import Embedding, Experts, Quantise
from colibri.graph.scheme import Scheme
from colibri.graph.weights import AnyMatrix, Matrix, Vector, Weight
from colibri.passes.gptq import Inputs, damped, round_by_importance, round_for_outputs
from colibri.passes.linear_algebra import Wide
from colibri.passes.quantise import quantise_graph
from colibri.passes.rules import Rule
from colibri.progress import Progress, unseen

Rounder = Callable[[Matrix, Coding, Inputs], Matrix]


def quantise_calibrated(
    graph: Graph,
    scheme: Scheme,
    rules: Sequence[Rule],
    data: CalibrationData,
    how: Rounding = Rounding.GPTQ,
    progress: Progress = unseen,
) -> None:
    """As `quantise_graph`, in place, with rounding for the inputs that the data brings.

    Tables of embeddings, matrices of floats and those of more than `WIDEST` columns are rounded to nearest. An expert
    that fewer rows reach than its matrix has columns is rounded for a mixture of its own inputs and its layer's; the
    graph's warnings name it. With an encoder all matrices are rounded for the inputs of the original model.

    Raises:
        UsageError: as `quantise_graph`.
        BadInput: the model overflows on the data.
    """
    rounded = round_for_outputs if how is Rounding.GPTQ else round_by_importance
    if data.pairs:
        _quantise_apart(graph, scheme, rules, data, rounded, progress)
        return
    exact = wide_copy(graph)
    rounding = _Rounding(graph, dict(graph.weights), rounded)
    quantise_graph(graph, scheme, rules)
    rounding.codings = _codings(graph)
    first = _start(Reference(exact, data.sequences, multiplied=rounding.note), data)
    second = _start(Reference(graph, data.sequences, multiplied=rounding.round), data)
    advance = progress("calibrated matrices", len(rounding.codings))
    with np.errstate(all="ignore"):
        for wide, narrow in zip(_steps(exact.ops), _steps(graph.ops), strict=True):
            left = len(rounding.codings)
            with suppress(_Enough):
                for op in wide:
                    op.reference(first)
            with suppress(_Enough):
                for op in narrow:
                    rounding.begin(op, second)
                    op.reference(second)
            rounding.end()
            advance(left - len(rounding.codings))
            if not rounding.codings:
                break


def _quantise_apart(
    graph: Graph, scheme: Scheme, rules: Sequence[Rule], data: CalibrationData, rounded: Rounder, progress: Progress
) -> None:
    """For the inputs of the original model."""
    found = collect(graph, data, progress=progress)
    original = dict(graph.weights)
    quantise_graph(graph, scheme, rules)
    for name, coding in _codings(graph).items():
        moments, matrix = found.moments.get(name), original[name]
        assert not isinstance(matrix, Vector)
        if moments is not None and moments.second is not None:
            graph.weights[name] = rounded(matrix.load(), coding, Inputs(damped(moments.second)))


def _start(reference: Reference, data: CalibrationData) -> Run:
    if data.samples is not None:
        return reference.run_of_samples(data.samples)
    assert data.windows is not None
    return reference.run_of_tokens(data.windows, all_rows=True)


def _steps(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Each op with what quantises for it."""
    step: list[Op] = []
    for op in ops:
        step.append(op)
        if not isinstance(op, Quantise):
            yield step
            step = []


def _codings(graph: Graph) -> dict[str, Coding]:
    """Matrices that are rounded for their inputs."""
    tables = {name for op in graph.ops if isinstance(op, Embedding) for name in op.weights().values()}
    names = {product.weight for op in graph.ops for product in op.products()} - tables
    codings = {name: graph.matrix(name).coding for name in sorted(names)}
    return {
        name: coding
        for name, coding in codings.items()
        if not (coding.format.floating or coding.format is WeightFormat.FP4 or graph.matrix(name).shape[1] > WIDEST)
    }


class _Enough(Exception):
    """No matrix is left to be rounded: a product with the last one, logits perhaps, would be large and of no use."""


@dataclass
class _Rounding:
    """Hears of all products: it notes the rows of the first run, and rounds in the second.

    Attributes:
        graph: that is rounded.
        original: its weights before.
        rounded: makes a matrix of one of them.
        codings: of the matrices that are still to be rounded.
        experts: the op that runs, if it is one.
        general: second moments of what all of its experts read.
        few: expert to its rows, where they are fewer than columns.
    """

    graph: Graph
    original: Mapping[str, Weight]
    rounded: Rounder
    codings: dict[str, Coding] = field(default_factory=dict)
    experts: Experts | None = None
    general: Wide | None = None
    few: dict[int, int] = field(default_factory=dict)
    _before: dict[str, tuple[Float, Rows]] = field(default_factory=dict)
    _last: tuple[Float | Quantised, Float] | None = None
    _shared: tuple[Float | Quantised, bool, Inputs] | None = None

    def begin(self, op: Op, run: Run) -> None:
        """An op of the second run; of experts, see what they all read."""
        self._shared = None
        self.experts = op if isinstance(op, Experts) else None
        if isinstance(op, Experts) and not self.codings.keys().isdisjoint(
            name for slots in op.experts() for name in slots.values()
        ):
            rows = floats(run.operand(op.x, op.input_kind))
            self.general = mean_product(rows, rows)

    def note(self, name: str, x: Float | Quantised, rows: Rows) -> None:
        """A product of the first run."""
        if name in self.codings:
            if self._last is None or self._last[0] is not x:
                self._last = x, floats(x)
            self._before[name] = self._last[1], rows
            if len(self.codings) == 1:
                raise _Enough

    def round(self, name: str, x: Float | Quantised, rows: Rows) -> None:
        """A product of the second run, before it is made."""
        if name not in self.codings:
            return
        biased = self._original(name).has_bias
        if self._shared is None or self._shared[0] is not x or self._shared[1] != biased:
            self._shared = x, biased, self._inputs(name, floats(x), rows, biased)
        self._put(name, self._shared[2])
        if not self.codings:
            raise _Enough

    def end(self) -> None:
        """Round experts that no row reached, and say which had few."""
        for expert in self.experts.kept if self.experts else ():
            for slot, name in expert.slots().items():
                if name in self.codings:
                    k = self.graph.matrix(name).shape[1]
                    own = np.zeros((k, k)) if slot == "down" or self.general is None else self.general
                    self._put(name, Inputs(damped(own)))
                    self.few[expert.id] = 0
        if self.experts and self.few:
            self.graph.warnings.append(_few_words(self.experts, self.few))
        self.few.clear()
        self._before.clear()
        self._last = None

    def _inputs(self, name: str, x: Float, rows: Rows, biased: bool) -> Inputs:
        before, rows_before = self._before.get(name, (x, rows))
        if not (np.isfinite(x).all() and np.isfinite(before).all()):
            what = f"the model overflows on it: what {name} is multiplied with is not finite"
            raise BadInput(what, where="calibration data")
        prior = None
        for expert in self.experts.kept if self.experts else ():
            if name in expert.slots().values():
                prior = None if name == expert.down else self.general
                if len(x) < x.shape[1]:
                    self.few[expert.id] = len(x)
        return inputs_of(x, same_rows(x, rows, before, rows_before), centred=biased, prior=prior)

    def _put(self, name: str, inputs: Inputs) -> None:
        self.graph.weights[name] = self.rounded(self._original(name).load(), self.codings.pop(name), inputs)

    def _original(self, name: str) -> AnyMatrix:
        weight = self.original[name]
        assert not isinstance(weight, Vector)
        return weight


def _few_words(op: Experts, few: Mapping[int, int]) -> str:
    """``layer 2: calibration hardly reaches experts 3 (0 rows), 5 (35 rows); rounded for …``."""
    named = [f"{expert} ({rows} rows)" for expert, rows in sorted(few.items())]
    which = f"expert {named[0]}" if len(named) == 1 else f"experts {', '.join(named)}"
    return f"layer {op.layer}: calibration hardly reaches {which}; rounded for what all experts of the layer read"
