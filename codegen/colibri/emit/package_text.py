"""What the templates of a package may name: macros, sizes, lines about model, board and files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from colibri import __version__
from colibri.boards.cores import cycle_counter
from colibri.boards.profile import Board, BoardKind, Holds
from colibri.called import called_functions, paints
from colibri.emit.linker import block_section
from colibri.emit.literals import comment_text
from colibri.emit.model_bin import ModelBin
from colibri.emit.module import Module
from colibri.graph.graph import Graph
from colibri.package import Memory, ModelFacts, Package, used_regions
from colibri.passes.pack import Layouts
from colibri.passes.place import CONTEXT_BYTES
from colibri.passes.spread import bytes_read
from colibri.toolchain.buildfiles import image_suffix

_BENCH_PROMPT, _BENCH_TOKENS = 128, 64  # of the bench program, where nothing is said


@dataclass(frozen=True)
class Contents:
    """Everything that goes into the folder.

    Attributes:
        levels: the module of each further set of instructions.
    """

    package: Package
    graph: Graph
    module: Module
    levels: dict[str, Module]
    files: Sequence[ModelBin]
    layouts: Layouts
    recipe: bytes
    vectors: bytes
    licence: str | None
    origin: str | None
    tokenizer: bytes | None


@dataclass(frozen=True)
class _Macro:
    name: str
    value: str
    doc: str


def _memory_macros(memory: Memory, prefix: str) -> list[_Macro]:
    if len(memory.blocks) == 1:
        return [_Macro(f"{prefix}_MEMORY_BYTES", str(memory.total), "of the caller's block, aligned to 16")]
    return [
        *(
            _Macro(f"{prefix}_{block.name.upper()}_BYTES", str(block.total), "of the block there, aligned to 16")
            for block in memory.blocks
        ),
        _Macro(f"{prefix}_MEMORY_BYTES", str(memory.total), "of all blocks"),
    ]


def package_values(contents: Contents) -> dict[str, object]:
    """Values that all templates of a package have."""
    package, graph = contents.package, contents.graph
    model, memory, hot = package.model, package.memory, package.hot_weights
    tokens = model.kind == "tokens"
    prefix = package.prefix.upper()
    shape = (
        [
            _Macro(f"{prefix}_VOCAB", str(model.outputs), "scores behind each token"),
            _Macro(f"{prefix}_CONTEXT", str(package.context), "positions that fit"),
            _Macro(f"{prefix}_PREFILL", str(package.prefill), "tokens taken in at once"),
            *(
                [
                    _Macro(f"{prefix}_SOURCE", str(model.source), "tokens that encode takes"),
                    _Macro(f"{prefix}_START", str(model.start), "token that decoding begins with"),
                ]
                if model.source
                else []
            ),
        ]
        if tokens
        else [
            _Macro(f"{prefix}_BATCH", str(package.batch), "samples in a call"),
            _Macro(f"{prefix}_INPUTS", str(model.inputs), "floats of a sample"),
            _Macro(f"{prefix}_OUTPUTS", str(model.outputs), "floats of a prediction"),
        ]
    )
    bench_tokens = min(_BENCH_TOKENS, package.context // 2)
    experts = "/".join(str(count) for count in model.experts)
    macros = [
        *shape,
        _Macro(f"{prefix}_LAYERS", str(len(model.experts)), f"with experts: {experts} kept"),
        _Macro(f"{prefix}_TOP_K", str(model.top_k), "experts that run for each " + ("token" if tokens else "sample")),
        *_memory_macros(memory, prefix),
        _Macro(f"{prefix}_MODEL_BYTES", str(package.model_bin_bytes), "of model.bin"),
        *([_Macro(f"{prefix}_HOT_BYTES", str(hot.bytes), "of hot.bin")] if hot else []),
    ]  # fmt: skip
    labels = [
        f"{kind[:-1]} {index}: {comment_text(label)}"
        for kind, names in sorted(graph.labels.items())
        for index, label in enumerate(names)
    ]
    return {
        "title": comment_text(package.name),
        "version": __version__,
        "board": board_line(package.board),
        "board_id": package.board.id,
        "summary": summary_line(package),
        "weights": textwrap.wrap(_weights(package), 100),
        "abi_hash": package.abi_hash,
        "p": package.prefix,
        "P": prefix,
        "macros": macros,
        "labels": labels,
        "tokens": tokens,
        "batch": package.batch,
        "prefill": package.prefill,
        "context": package.context,
        "source": model.source,
        "classifies": model.classifies,
        "inputs": model.inputs,
        "outputs": model.outputs,
        "top_k": model.top_k,
        "expert_counts": model.experts,
        "context_bytes": CONTEXT_BYTES,
        "memory_bytes": memory.total,
        "memory_blocks": memory.blocks,
        "memory_params": ", ".join(f"void *{block.name}, size_t {block.name}_bytes" for block in memory.blocks),
        "memory_arguments": ", ".join(
            f"{package.prefix}_{block.name}, sizeof {package.prefix}_{block.name}" for block in memory.blocks
        ),
        "test_memory_arguments": ", ".join(
            f"{package.prefix}_{block.name}, {prefix}_{block.name.upper()}_BYTES" for block in memory.blocks
        ),
        "block_section": block_section,
        "model_bytes": package.model_bin_bytes,
        "files": _file_values(contents),
        "hot": hot is not None,
        "levels": package.board.levels,
        "fast_code": package.fast_code,
        "weights_apart": _apart(package.board),
        "model_params": _join(contents, "const void *{0}, size_t {0}_bytes"),
        "model_arguments": _join(contents, f"{package.prefix}_{{1}}, {prefix}_{{2}}_BYTES"),
        "threads": package.threads != 1,
        "thread_count": package.threads,
        "first_token": 0,
        "read_bytes": bytes_read(graph, contents.layouts),
        "bench_tokens": bench_tokens,
        "bench_prompt": min(_BENCH_PROMPT, model.source or package.context - bench_tokens),
        "routing": model.routing,
        "scheme": package.scheme,
        "optimise": str(package.optimise),
        "licence": comment_text(contents.licence or "", 200),
        "origin": comment_text(contents.origin or "", 400),
        "dropped": [comment_text(note, 200) for note in graph.dropped],
        "fpu": package.board.cpu.fpu,
        "needs": region_needs(package),
        "bare": package.board.kind is BoardKind.BARE,
        "kind": str(package.board.kind),
        "arch": package.board.cpu.arch,
        "core": package.board.cpu.core,
        "cycle_counter": cycle_counter(package.board.cpu.arch, package.board.cpu.core),
        "paints": paints(package.board),
        "called": [_slot(name, package.prefix) for name in called_functions(model, package.prefix)],
        "suffix": image_suffix(package.board),
        "emulators": [emulator.name for emulator in package.board.emulators],
    }


def _slot(function: str, prefix: str) -> str:
    """Of its depth in `app/test.c`."""
    return "AT_" + function.removeprefix("colibri_").removeprefix(f"{prefix}_").upper()


def region_needs(package: Package) -> list[tuple[str, str]]:
    """Regions that the package uses, and what each needs of others before it answers."""
    hot = package.hot_weights.region if package.hot_weights else ""
    used = used_regions(package.board, package.memory, package.fast_code, hot)
    return [(one.name, comment_text(one.needs, 200)) for one in package.board.memory if one.needs and one.name in used]


@dataclass(frozen=True)
class _FileText:
    """A file of weights: its names in C, and what the code knows of it.

    Attributes:
        param: of init.
        symbol: of its bytes, behind the prefix.
        macro: of its length, between prefix and ``_BYTES``.
        model: of its descriptor, behind the prefix.
        constant: of its index in the context.
    """

    name: str
    param: str
    symbol: str
    macro: str
    model: str
    constant: str
    region: str
    bytes: int
    weight_bytes: int
    abi_row: str


_FILE_WORDS = (
    ("model.bin", "model", "bin", "MODEL", "model", "FROM_MODEL"),
    ("hot.bin", "hot", "hot_bin", "HOT", "hot_model", "FROM_HOT"),
)
FILE_NAMES = tuple(words[0] for words in _FILE_WORDS)


def _file_values(contents: Contents) -> list[_FileText]:
    hot = contents.package.hot_weights
    regions = (contents.package.board.region_for(Holds.WEIGHTS).name, hot.region if hot else "")
    return [
        _FileText(
            *words,
            region=region,
            bytes=file.length,
            weight_bytes=max((one.offset + one.bytes for one in file.sections if one.part != "manifest"), default=0),
            abi_row=", ".join(f"0x{byte:02X}" for byte in file.abi_hash),
        )
        for words, region, file in zip(_FILE_WORDS, regions, contents.files, strict=False)
    ]


def _apart(board: Board) -> tuple[str, str, int] | None:
    """Regions of code and of `model.bin`, and where the latter begins, when they are two."""
    code, weights = board.region_for(Holds.CODE), board.region_for(Holds.WEIGHTS)
    return None if code == weights else (code.name, weights.name, weights.origin)


def _join(contents: Contents, pattern: str) -> str:
    """The pattern for each file of weights, with its parameter, symbol and macro."""
    return ", ".join(pattern.format(one.param, one.symbol, one.macro) for one in _file_values(contents))


def board_line(board: Board) -> str:
    """The board in a few words."""
    return comment_text(f"{board.id} ({board.cpu.core})")


def _source(model: ModelFacts) -> str:
    return f"source {model.source}, " if model.source else ""


def _weights(package: Package) -> str:
    """How weights and states are stored, in a sentence."""
    mixed = ":" in package.scheme
    each = [f"{name} {scheme}" for name, scheme in package.schemes.items()]
    told = each if mixed else [package.scheme, "router fp32"]
    states = [f"key and value states {package.kv}"] if package.kv else []
    return f"Weights: {', '.join([*told, *states])}."


def summary_line(package: Package) -> str:
    """The model in a few words."""
    model = package.model
    counts = sorted(set(model.experts))
    experts = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    each = "one MLP" if counts == [1] else f"{experts} experts, top {model.top_k}"
    layers = f"{len(model.experts)} layer{'s' if len(model.experts) > 1 else ''} of {each}"
    shape = (
        f"vocabulary {model.outputs}, {_source(model)}context {package.context}, prefill {package.prefill}"
        if model.kind == "tokens"
        else f"{model.inputs} inputs, {model.outputs} outputs, batch {package.batch}"
    )
    return f"{model.parameters:,} parameters, {layers}; {shape}."
