"""Golden vectors: what the test program is asked, and the bits that the numpy reference answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from colibri.checkpoint.untrusted import decoded
from colibri.emulate.protocol import Request
from colibri.errors import BadInput, shown
from colibri.graph.graph import Graph, ModelKind
from colibri.graph.interpret import Reference
from colibri.progress import Progress, unseen

CONTEXT_FULL, BAD_TOKEN, NOT_FINITE, BAD_ARGUMENT = -10, -9, -11, -1
_OPS = frozenset("VIERPSF")  # requests that the test program knows
LONGEST = 1024  # positions that golden vectors fill; attention to all of a longer context would take hours
# Each call of the reference goes through the weights anew, so that large models get fewer calls: so many weights in all
# are a minute or so. A model that then has not even a few dozen calls gets one.
_WEIGHTS_IN_ALL = 1 << 32
_FEWEST_CALLS = 64


class Answer(msgspec.Struct, frozen=True):
    """One expected frame: its status, and the bytes of its words."""

    status: int
    payload: bytes


class Case(msgspec.Struct, frozen=True):
    """One request with its answers; ``title`` says what is shown, e.g. ``prompt of 9 tokens``."""

    title: str
    op: str
    payload: bytes
    answers: tuple[Answer, ...]

    @property
    def request(self) -> Request:
        """As the protocol sends it."""
        return Request(self.op, self.payload)


def save_vectors(cases: list[Case]) -> bytes:
    """The file `test/vectors.msgpack`."""
    return msgspec.msgpack.encode(cases)


def load_vectors(raw: bytes, where: str) -> list[Case]:
    """Read the file.

    Raises:
        BadInput: it is damaged.
    """
    again = "generate the package again"
    cases = decoded(
        lambda: msgspec.msgpack.decode(raw, type=list[Case]), what="test vectors are damaged", where=where, hint=again
    )
    for case in cases:
        if not _is_sound(case):
            raise BadInput(f"test vectors are damaged: case '{shown(case.title)}'", where=where, hint=again)
    if not any(case.answers for case in cases):
        raise BadInput("there is nothing to compare", where=where, hint=again)
    return cases


def _is_sound(case: Case) -> bool:
    """Whether the protocol can carry it."""
    payloads = [case.payload, *(answer.payload for answer in case.answers)]
    small = all(-(1 << 31) <= answer.status < 1 << 31 for answer in case.answers)
    return case.op in _OPS and case.title.isprintable() and small and all(len(payload) % 4 == 0 for payload in payloads)


@dataclass
class _Script:
    """Collects cases; the start is the same for all models."""

    cases: list[Case]

    @classmethod
    def begin(cls, model_bytes: int, memory_bytes: int) -> _Script:
        return cls(
            [
                Case("checksums of model.bin", "V", b"", (_word(0, model_bytes),)),
                Case("initialise", "I", b"", (_word(0, memory_bytes),)),
            ]
        )

    def add(self, title: str, op: str, payload: NDArray[np.generic] | None, *answers: Answer) -> None:
        raw = b"" if payload is None else payload.tobytes()
        self.cases.append(Case(title, op, raw, answers))


def _word(status: int, word: int) -> Answer:
    return Answer(status, word.to_bytes(4, "little"))


def _floats(values: NDArray[np.float32]) -> Answer:
    return Answer(0, np.ascontiguousarray(values, "<f4").tobytes())


def make_vectors(
    graph: Graph, *, rows: int, model_bytes: int, memory_bytes: int, seed: int = 1, progress: Progress = unseen
) -> list[Case]:
    """Run the reference on inputs that reach every path of the generated code; a huge token model on a few tokens.

    Args:
        rows: batch of a sample model, prefill width of a token model.
        seed: of the pseudo-random inputs.
        progress: is told of the work on a huge model.
    """
    script = _Script.begin(model_bytes, memory_bytes)
    random = np.random.Generator(np.random.PCG64(seed))
    if graph.kind is ModelKind.SAMPLES:
        _sample_cases(graph, rows, script, random)
    elif _affordable_calls(graph) < _FEWEST_CALLS:
        progress("numpy reference", 0)
        _few_cases(graph, rows, script, random)
    else:
        _token_cases(graph, rows, script, random)
    return script.cases


def _affordable_calls(graph: Graph) -> int:
    return _WEIGHTS_IN_ALL // max(1, graph.parameters())


def _few_cases(graph: Graph, prefill: int, script: _Script, random: np.random.Generator) -> None:
    """One call for as few tokens as show a step behind another, and a prefill behind a whole one."""
    count, sources = min(graph.context, max(2, prefill + 1)), min(graph.source, prefill + 1)
    prompt, source = (random.integers(0, graph.output_width, size).astype("<u4") for size in (count, sources))
    reference = Reference(graph)
    if graph.source:
        _encode(reference, script, source)
    rows = reference.extend(prompt, all_rows=True)[0]
    script.add(f"prompt of {count} tokens", "P", prompt, _floats(rows[-1]))
    if graph.source:
        _encode(reference, script, source)
    else:
        script.add("reset", "R", None, _word(0, 0))
    script.add(f"the same {count} tokens step by step", "S", prompt, *(_floats(row) for row in rows))
    _refused(reference, script)


def _refused(reference: Reference, script: _Script) -> None:
    beyond = np.zeros(reference.graph.context - reference.position + 1, "<u4")
    script.add("a prompt one token longer than what is left", "P", beyond, Answer(CONTEXT_FULL, b""))


def _sample_cases(graph: Graph, batch: int, script: _Script, random: np.random.Generator) -> None:
    reference = Reference(graph)
    shape = (batch, graph.input_width)

    def forward(title: str, samples: NDArray[np.float32]) -> None:
        script.add(title, "F", samples.astype("<f4"), _floats(reference.forward(samples)))

    for call in range(32):
        forward(f"random samples, call {call}", random.standard_normal(shape).astype(np.float32))
    forward("zeros", np.zeros(shape, np.float32))
    forward("tiny values", (random.standard_normal(shape) * 1e-30).astype(np.float32))
    forward("denormal values", (random.standard_normal(shape) * 1e-41).astype(np.float32))
    forward("large values", (random.standard_normal(shape) * 1e6).astype(np.float32))
    forward("values that overflow", np.full(shape, 3e38, np.float32))
    for name, value in (("an infinite input", np.inf), ("an input that is not a number", np.nan)):
        samples = np.zeros(shape, np.float32)
        samples[-1, -1] = value
        script.add(name, "F", samples.astype("<f4"), Answer(NOT_FINITE, b""))
    forward("samples after refused ones", random.standard_normal(shape).astype(np.float32))


def _token_cases(graph: Graph, prefill: int, script: _Script, random: np.random.Generator) -> None:
    context, vocab = graph.context, graph.output_width

    def ids(count: int) -> NDArray[np.uint32]:
        return random.integers(0, vocab, count).astype("<u4")

    reference = Reference(graph)
    if graph.source:
        _sources(reference, prefill, script, ids)

    def begin() -> None:
        if graph.source:
            _encode(reference, script, ids(min(graph.source, 2 * prefill + 3)))
        else:
            reference.reset()
            script.add("reset", "R", None, _word(0, 0))

    long = min(context, max(3 * prefill + 2, 24))
    for length in sorted({1, 2, prefill - 1, prefill, prefill + 1, long} - {0}):
        if length > context:
            continue
        prompt = ids(length)
        begin()
        logits = reference.extend(prompt)[0]
        script.add(f"prompt of {length} tokens", "P", prompt, _floats(logits))
    prompt = ids(long)
    begin()
    rows = reference.extend(prompt, all_rows=True)[0]
    script.add(f"the same {long} tokens step by step", "S", prompt, *(_floats(row) for row in rows))
    script.add("reset", "R", None, _word(0, 0))
    script.add(f"the same {long} tokens at once", "P", prompt, _floats(rows[-1]))
    script.add("a token beyond the vocabulary", "P", np.array([vocab], "<u4"), Answer(BAD_TOKEN, b""))
    start = ids(min(7, context))
    begin()
    _generation(reference, script, start, context)


def _sources(reference: Reference, prefill: int, script: _Script, ids: Callable[[int], NDArray[np.uint32]]) -> None:
    """What encode takes and refuses; each source shows in the logits of one step."""
    graph = reference.graph
    start = np.array([graph.start], "<u4")
    script.add("a step before there is a source", "S", start, Answer(BAD_ARGUMENT, b""))
    for length in sorted({1, 2, prefill, prefill + 1, graph.source} - {0}):
        if length <= min(graph.source, LONGEST):
            _encode(reference, script, ids(length))
            script.add("the first step", "S", start, _floats(reference.extend(start)[0]))
    longer = np.zeros(graph.source + 1, "<u4")
    script.add("a source one token too long", "E", longer, _word(CONTEXT_FULL, 1))
    script.add("a source with a token beyond the vocabulary", "E", longer[:1] + graph.output_width, _word(BAD_TOKEN, 1))


def _encode(reference: Reference, script: _Script, source: NDArray[np.uint32]) -> None:
    reference.encode(source)
    script.add(f"source of {source.size} tokens", "E", source, _word(0, 0))


def _generation(reference: Reference, script: _Script, prompt: NDArray[np.uint32], context: int) -> None:
    """Greedy generation up to the end of the context, then one token too many."""
    logits = reference.extend(prompt)[0]
    script.add(f"prompt of {prompt.size} tokens", "P", prompt, _floats(logits))
    tokens, answers = [], []
    longest = min(LONGEST, _affordable_calls(reference.graph))
    while reference.position < min(context, longest):
        tokens.append(int(np.argmax(logits)))
        logits = reference.extend(np.array(tokens[-1:]))[0]
        answers.append(_floats(logits))
    end = "the end of the context" if context <= longest else f"position {longest} of {context}"
    if tokens:
        script.add(f"greedy generation to {end}", "S", np.array(tokens, "<u4"), *answers)
    if context <= longest:
        script.add("one step beyond the context", "S", np.array([0], "<u4"), Answer(CONTEXT_FULL, b""))
    _refused(reference, script)
