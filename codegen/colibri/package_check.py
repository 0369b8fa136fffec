"""What must hold in `package.json` beyond its shape: a file edited by hand is refused before anything counts on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

from colibri.boards.check import safe_faults
from colibri.boards.locate import dotted
from colibri.boards.profile import MemoryKind
from colibri.emit.literals import PREFIX
from colibri.errors import BadInput, shown
from colibri.package import TYPE_BYTES, VIEW_NAMES, ModelFacts, Package, Span, View
from colibri.threads import MOST_THREADS

_SIZES = 1 << 32  # bytes; offsets in the generated C have 32 bits
_COUNTS = 1 << 53  # anything counted; exact in every reader of JSON
_EXPERTS = _LAYERS = 4096
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.]*"  # they become commands of a debugger
_SPAN_KINDS = ("context", "state", "arena")


def check_package(package: Package, path: Path) -> None:
    """Check a package whose shape is right.

    Args:
        path: its file, for the message.

    Raises:
        BadInput: names the key.
    """
    where = shown(str(path), 300)
    for unsafe in safe_faults(package.board, lambda key: f"{where}: board.{dotted(key)}"):
        raise unsafe
    for key, fault in _faults(package):
        raise BadInput(f"{key} {fault}", where=where, hint="generate the package again")


def _faults(package: Package) -> Iterator[tuple[str, str]]:
    """Each key that is wrong, and what it is."""
    if not re.fullmatch(PREFIX, package.prefix):
        yield "prefix", f"'{shown(package.prefix)}' cannot begin C names"
    for key in ("generator", "name", "scheme", "kv", "abi_hash", "recipe_hash"):
        if not getattr(package, key).isprintable():
            yield key, "has characters that do not print"
    if not "".join(word for pair in package.schemes.items() for word in pair).isprintable():
        yield "schemes", "has characters that do not print"
    tokens = package.model.kind == "tokens"
    yield from _model(package.model)
    yield from _within("batch", package.batch, int(not tokens), 1024)
    yield from _within("context", package.context, int(tokens), 1 << 31)
    yield from _within("prefill", package.prefill, int(tokens), 1024)
    yield from _within("threads", package.threads, 0, MOST_THREADS)
    yield from _within("model_bin_bytes", package.model_bin_bytes, 1, _SIZES)
    if (estimate := package.code_estimate) is not None:
        for key in ("code", "tables", "data"):
            yield from _within(f"code_estimate.{key}", getattr(estimate, key), 0, _SIZES)
        for name, size in estimate.kernels.items():
            yield from _within(f"code_estimate.kernels '{shown(name)}'", size, 0, _SIZES)
    for name, length, sections in package.weight_files():
        yield from _within(f"bytes of {name}", length, 1, _SIZES)
        for index, section in enumerate(sections):
            key = f"sections[{index}]" if name == "bin" else f"hot_weights.sections[{index}]"
            yield from _within(f"{key}.offset", section.offset, 0, length)
            yield from _within(f"{key}.bytes", section.bytes, 0, length - section.offset)
    for region in package.board.memory:
        key = f"board.memory '{shown(region.name)}'"
        for name in ("origin", "length", "budget", "warn"):
            yield from _within(f"{key}.{name}", getattr(region, name), 0, _COUNTS)
        yield from _within(f"{key}.cost", region.cost, 1, _COUNTS)
    yield from _memory(package)
    yield from _fast_code(package)
    yield from _compiler(package)
    flash = {region.name for region in package.board.memory if region.kind is MemoryKind.FLASH}
    if (hot := package.hot_weights) is not None and hot.region not in flash:
        yield "hot_weights.region", f"is '{shown(hot.region)}', which is no flash of the board"
    for index, op in enumerate(package.ops):
        for name, text in (("name", op.name), ("kind", op.kind), ("block", op.block or "none")):
            if not re.fullmatch(_NAME, text):
                yield f"ops[{index}].{name}", f"is '{shown(text)}'"
        yield from _within(f"ops[{index}].layer", op.layer, -1, _LAYERS - 1)
        yield from _within(f"ops[{index}].repeats", op.repeats, 1, _SIZES)
        for name in ("macs", "macs_per_position", "reach"):
            yield from _within(f"ops[{index}].{name}", getattr(op, name), 0, _COUNTS)


def _model(model: ModelFacts) -> Iterator[tuple[str, str]]:
    if model.kind not in ("tokens", "samples"):
        yield "model.kind", f"is '{shown(model.kind)}', expected 'tokens' or 'samples'"
    least = int(model.kind == "samples")
    yield from _within("model.inputs", model.inputs, least, least * (1 << 31))
    yield from _within("model.outputs", model.outputs, 1, 1 << 31)
    tokens = int(model.kind == "tokens")
    yield from _within("model.source", model.source, 0, tokens * (1 << 31))
    yield from _within("model.start", model.start, 0, tokens * (model.outputs - 1))
    yield from _within("model.parameters", model.parameters, 1, _COUNTS)
    if not model.experts:
        yield "model.experts", "is empty"
    for index, count in enumerate(model.experts):
        yield from _within(f"model.experts[{index}]", count, 1, _EXPERTS)
    yield from _within("model.top_k", model.top_k, 1, _EXPERTS)
    for key, labels in model.labels.items():
        expected = {"inputs": model.inputs, "outputs": model.outputs}.get(key)
        if expected is None:
            yield "model.labels", f"has '{shown(key)}', expected 'inputs' and 'outputs'"
        elif len(labels) != expected:
            yield f"model.labels.{key}", f"names {len(labels)}, but there are {expected}"


def _memory(package: Package) -> Iterator[tuple[str, str]]:
    memory = package.memory
    regions = {region.name for region in package.board.memory if region.kind is MemoryKind.RAM}
    if not memory.blocks:
        yield "memory.blocks", "is empty"
    if len({block.region for block in memory.blocks}) < len(memory.blocks):
        yield "memory.blocks", "has two in one region"
    yield from _within("memory.total", memory.total, *[sum(block.total for block in memory.blocks)] * 2)
    for number, block in enumerate(memory.blocks):
        at = f"memory.blocks[{number}]"
        if block.region not in regions:
            yield f"{at}.region", f"is '{shown(block.region)}', which is no RAM of the board"
        if block.name not in ("memory", f"memory_{block.region}"):
            yield f"{at}.name", f"is '{shown(block.name)}'"
        for name in ("context", "states", "arena", "bound"):
            yield from _within(f"{at}.{name}", getattr(block, name), 0, _SIZES)
        yield from _within(f"{at}.total", block.total, *[block.context + block.states + block.arena] * 2)
        for index, span in enumerate(block.spans):
            yield from _span(span, f"{at}.spans[{index}]", block.total, len(package.ops))


def _span(span: Span, key: str, total: int, ops: int) -> Iterator[tuple[str, str]]:
    if span.kind not in _SPAN_KINDS:
        yield f"{key}.kind", f"is '{shown(span.kind)}', expected {' or '.join(map(repr, _SPAN_KINDS))}"
    yield from _within(f"{key}.offset", span.offset, 0, total)
    yield from _within(f"{key}.bytes", span.bytes, 0, total - span.offset)
    yield from _within(f"{key}.heat", span.heat, 0, _COUNTS)
    yield from _within(f"{key}.first", span.first, -1, ops - 1)
    yield from _within(f"{key}.last", span.last, span.first, ops - 1)
    if not re.fullmatch(_NAME, span.name):
        yield f"{key}.name", f"is '{shown(span.name)}'"
    for begin, end in span.live:
        yield from _within(f"{key}.live", begin, span.first, span.last)
        yield from _within(f"{key}.live", end, begin, span.last)
    for index, view in enumerate(span.views):
        yield from _view(view, f"{key}.views[{index}]", span)


def _view(view: View, key: str, span: Span) -> Iterator[tuple[str, str]]:
    if view.name not in VIEW_NAMES:
        yield f"{key}.name", f"is '{shown(view.name)}'"
    if view.type not in TYPE_BYTES:
        yield f"{key}.type", f"is '{shown(view.type)}', expected one of {', '.join(TYPE_BYTES)}"
    elif not view.shape or min(view.shape) < 1:
        yield f"{key}.shape", f"is {list(view.shape)}"
    else:
        size = TYPE_BYTES[view.type] * prod(view.shape)
        yield from _within(f"{key}.offset", view.offset, span.offset, span.offset + span.bytes - size)


def _fast_code(package: Package) -> Iterator[tuple[str, str]]:
    """Its names go into linker scripts."""
    if (fast := package.fast_code) is not None:
        if fast.region not in {region.name for region in package.board.memory if region.kind is MemoryKind.RAM}:
            yield "fast_code.region", f"is '{shown(fast.region)}', which is no RAM of the board"
        for index, name in enumerate(fast.functions):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                yield f"fast_code.functions[{index}]", f"is '{shown(name)}', which is no name of a function"


def _compiler(package: Package) -> Iterator[tuple[str, str]]:
    """Its programs are run: those of build files by ninja, the disassembler by reports."""
    if (compiler := package.compiler) is None:
        return
    for key, words in (("cc", compiler.cc), ("ar", compiler.ar), ("objcopy", compiler.objcopy)):
        if not words or not all(re.fullmatch(r"[A-Za-z0-9_.+/-]+", word) for word in words):
            yield f"compiler.{key}", f"is '{shown(' '.join(words))}', which names no program"
    if compiler.objdump and not re.fullmatch(r"[A-Za-z0-9_.+/-]*objdump[\d.-]*", compiler.objdump):
        yield "compiler.objdump", f"is '{shown(compiler.objdump)}', which is no disassembler"


def _within(key: str, value: int, least: int, most: int) -> Iterator[tuple[str, str]]:
    if not least <= value <= most:
        yield key, f"is {value}, expected {least} to {most}" if least < most else f"is {value}, expected {least}"
