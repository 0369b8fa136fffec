"""The fp32 graph of a checkpoint against golden outputs of the original model: is the import right?

A golden file is a ``.npz``. Of a token model it has for each case ``input_ids_N [length]`` with
``logits_N [length, vocab]`` and, if the original was asked to continue, ``greedy_N [count]``. Where there is an encoder
the tokens of the logits are ``decoder_input_ids_N``, and what is continued is the start alone. Of a sample model it has
``x [rows, inputs]`` and ``pred [rows, outputs]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.arrays import Array, read_arrays
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput, shown
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.interpret import Reference

_IDS, _DECODED, _LOGITS, _GREEDY = "input_ids_", "decoder_input_ids_", "logits_", "greedy_"


@dataclass(frozen=True)
class CaseResult:
    """One case of a golden file.

    Attributes:
        name: ``input_ids_3``, or ``x``.
        rows: positions or samples that were compared.
        worst: largest difference of an output.
        row, output: where it is.
        continued: tokens that the original continued with; 0 where it was not asked.
        diverges: index of the first token that the graph continues with another one; -1 where all are the same.
    """

    name: str
    rows: int
    worst: float
    row: int
    output: int
    continued: int = 0
    diverges: int = -1


@dataclass(frozen=True)
class GoldenResult:
    """All cases; ``skipped`` are longer than the context."""

    cases: tuple[CaseResult, ...]
    skipped: tuple[str, ...]

    @property
    def worst(self) -> CaseResult:
        """The case with the largest difference."""
        return max(self.cases, key=lambda case: case.worst)

    def passed(self, tolerance: float) -> bool:
        """Whether no output is further off, and every continuation is the same."""
        return self.worst.worst <= tolerance and all(case.diverges < 0 for case in self.cases)


def compare_with_golden(checkpoint: Path, golden: Path, context: int | None = None) -> GoldenResult:
    """Run the graph in fp32 on the inputs of a golden file.

    Args:
        context: positions; None means the checkpoint's maximum. Longer cases are skipped.

    Raises:
        BadInput: the checkpoint or the file cannot be read, or they are not of the same model.
    """
    opened = Checkpoint.open(checkpoint)
    graph = import_graph(opened, ImportOptions(context))
    arrays, where = read_arrays(golden), shown(str(golden), 300)
    if graph.kind is ModelKind.SAMPLES:
        inputs = _numbers(arrays, "x", graph.input_width, where)
        wanted = _numbers(arrays, "pred", graph.output_width, where)
        if len(inputs) != len(wanted):
            raise BadInput(f"has {len(inputs)} rows in x and {len(wanted)} in pred", where=where)
        return GoldenResult((_compared("x", Reference(graph).forward(inputs.astype(np.float32)), wanted),), ())
    names = sorted((name for name in arrays if name.startswith(_IDS)), key=lambda name: (len(name), name))
    if not names:
        raise BadInput(f"has no {_IDS}0", where=where, hint="see docs/checkpoints.md for what a golden file holds")
    cases, skipped = [], []
    for name in names:
        tokens = _tokens(arrays[name], graph, f"{where}: {name}")
        if tokens.size > (graph.source or graph.context):
            skipped.append(name)
        else:
            cases.append(_token_case(Reference(graph), name, tokens, arrays, where))
    if not cases:
        raise BadInput(f"every case is longer than the context of {graph.context}", where=where)
    return GoldenResult(tuple(cases), tuple(skipped))


def _token_case(
    reference: Reference, name: str, tokens: NDArray[np.int64], arrays: dict[str, Array], where: str
) -> CaseResult:
    number = name.removeprefix(_IDS)
    source, start = None, tokens
    if reference.graph.source:
        if _DECODED + number not in arrays:
            raise BadInput(f"has no {_DECODED}{number}", where=where, hint="see docs/checkpoints.md")
        source, start = tokens, np.array([reference.graph.start])
        name = _DECODED + number
        tokens = _tokens(arrays[name], reference.graph, f"{where}: {name}")[: reference.graph.context]

    def begin() -> None:
        reference.reset()
        if source is not None:
            reference.encode(source)

    wanted = _numbers(arrays, _LOGITS + number, reference.graph.output_width, where)
    if len(wanted) != tokens.size:
        raise BadInput(f"has {tokens.size} tokens in {name} and {len(wanted)} rows in {_LOGITS}{number}", where=where)
    begin()
    found = _compared(name, reference.extend(tokens, all_rows=True)[0], wanted)
    if _GREEDY + number not in arrays:
        return found
    further = _tokens(arrays[_GREEDY + number], reference.graph, f"{where}: {_GREEDY}{number}")
    further = further[: reference.graph.context - start.size]
    begin()
    logits = reference.extend(start)[0]
    for index, token in enumerate(further):
        if int(np.argmax(logits)) != token:
            return CaseResult(**{**vars(found), "continued": further.size, "diverges": index})
        if index + 1 < further.size:
            logits = reference.extend(np.array([token]))[0]
    return CaseResult(**{**vars(found), "continued": further.size})


def _compared(name: str, found: NDArray[np.float32], wanted: NDArray[np.float64]) -> CaseResult:
    apart = np.abs(found.astype(np.float64) - wanted)
    apart = np.where(np.isnan(apart), np.inf, apart)
    row, output = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return CaseResult(name, len(wanted), float(apart[row, output]), int(row), int(output))


def _tokens(array: Array, graph: Graph, where: str) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu" or array.ndim != 1 or not array.size:
        raise BadInput(f"holds {array.dtype} of {array.ndim} dimensions, not tokens", where=where)
    if array.min() < 0 or array.max() >= graph.output_width:
        raise BadInput(f"has tokens beyond the vocabulary of {graph.output_width}", where=where)
    return array.astype(np.int64)


def _numbers(arrays: dict[str, Array], name: str, width: int, where: str) -> NDArray[np.float64]:
    if name not in arrays:
        raise BadInput(f"has no {name}", where=where)
    array = arrays[name]
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != width or not len(array):
        shape = " × ".join(str(extent) for extent in array.shape)
        raise BadInput(f"holds {array.dtype} [{shape}], not numbers [rows, {width}]", where=f"{where}: {name}")
    return array.astype(np.float64)
