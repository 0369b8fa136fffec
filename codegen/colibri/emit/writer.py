"""Write a package: the folder that a firmware engineer builds and includes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from colibri import __version__
from colibri.boards.profile import Board, BoardKind, Holds
from colibri.claim import put_in_place
from colibri.emit.c_layout import lay_out
from colibri.emit.c_text import model_c_values
from colibri.emit.linker import block_section, linker_scripts, port_files
from colibri.emit.literals import comment_text
from colibri.emit.model_bin import ModelBin
from colibri.emit.module import Module
from colibri.emit.templates import render
from colibri.emit.weights_file import write_model_bin
from colibri.errors import BadInput, UsageError, no_room
from colibri.graph.graph import Graph
from colibri.package import FILE_NAME, Memory, ModelFacts, Package, load_package, used_regions
from colibri.passes.pack import Layouts
from colibri.passes.place import CONTEXT_BYTES
from colibri.paths import data_folder
from colibri.progress import Progress, unseen
from colibri.toolchain.buildfiles import Sources, image_suffix, write_build_files


@dataclass(frozen=True)
class Contents:
    """Everything that goes into the folder."""

    package: Package
    graph: Graph
    module: Module
    files: Sequence[ModelBin]
    layouts: Layouts
    recipe: bytes
    vectors: bytes
    licence: str | None
    tokenizer: bytes | None


def write_package(folder: Path, contents: Contents, progress: Progress = unseen) -> None:
    """Write the package beside ``folder``, then rename it there; an older package is replaced.

    Raises:
        BadInput: ``folder`` exists and is not a package, or holds files of somebody else; or a weight cannot be used.
        UsageError: no folder can be made there, or another command works in it.
    """
    folder = resolved_output(folder)
    try:
        _refuse_what_is_not_ours(folder)
        fresh = [parent for parent in folder.parents if not parent.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".colibri-", dir=folder.parent))
    except OSError as error:
        what = f"cannot be made: {error.strerror}"
        raise UsageError(what, where=str(folder), hint="choose another with -o") from None
    try:
        beside.chmod(0o755)
        _fill(beside, contents, progress)
        put_in_place(beside, folder)
    except OSError as error:
        raise no_room(str(folder), error, "make room, or choose another folder with -o") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if not folder.exists():
            for parent in fresh:
                with suppress(OSError):  # somebody else has begun to use it
                    parent.rmdir()


def resolved_output(folder: Path) -> Path:
    """The folder without links and dots.

    Raises:
        UsageError: the system has no such names, or its links go in a circle or to nothing.
    """
    try:
        real = folder.resolve()
        broken = next((one for one in (folder, *folder.parents) if one.is_symlink() and not one.exists()), None)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its links go in a circle"
        raise UsageError(f"cannot be made: {reason}", where=str(folder), hint="choose another with -o") from None
    if broken is not None:
        hint = "make the folder that it is to point to, or choose another with -o"
        raise UsageError("is a link to nothing", where=str(broken), hint=hint)
    return real


_OURS = frozenset(
    [
        "README.md",
        "package.json",
        "recipe.json",
        "model.h",
        "model.bin",
        "hot.bin",
        "tokenizer.json",
        "build.ninja",
        "CMakeLists.txt",
        "toolchain.cmake",
        "src",
        "runtime",
        "port",
        "app",
        "test",
        "build",
        "report.html",
        ".ninja_log",
        ".ninja_deps",
        ".ninja_lock",
    ]
)


def _refuse_what_is_not_ours(folder: Path) -> None:
    """What is replaced is gone: so only an empty folder, or a package in which nothing of somebody else stands."""
    if not folder.exists():
        return
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    if not names:
        return
    hint = "choose another with -o"
    if not folder.is_dir() or FILE_NAME not in names:
        raise BadInput("exists and is not a Colibri package", where=str(folder), hint=hint)
    load_package(folder)
    if foreign := [name for name in names if name not in _OURS]:
        what = f"holds {foreign[0]!r}, which Colibri did not write"
        raise BadInput(what, where=str(folder), hint=f"move it out, or {hint}")
    for place, _, _ in os.walk(folder):
        if not os.access(place, os.W_OK | os.X_OK):  # it could be moved away, but not be deleted
            raise UsageError(f"the package in it is write-protected: {place}", where=str(folder), hint=hint)


def _fill(folder: Path, contents: Contents, progress: Progress) -> None:
    package, board = contents.package, contents.package.board
    for name, file in zip(FILE_NAMES, contents.files, strict=False):
        write_model_bin(folder / name, file, contents.graph, contents.layouts, progress(name, file.length))
    (folder / "recipe.json").write_bytes(contents.recipe)
    if contents.tokenizer is not None:
        (folder / "tokenizer.json").write_bytes(contents.tokenizer)
    (folder / "test").mkdir()
    (folder / "test" / "vectors.msgpack").write_bytes(contents.vectors)
    _copy(data_folder("runtime_c") / "LICENSE", folder / "runtime" / "LICENSE")
    library = _copy_runtime(folder, contents.module)
    port = _copy_port(folder, board)
    values = _common_values(contents)
    _write(folder / "model.h", render("package/model.h.j2", values))
    _write(
        folder / "src/model.c",
        render("package/model.c.j2", {**values, **model_c_values(contents.module, contents.graph, package.prefix)}),
    )
    _write(folder / "src/model_bin.S", render("package/model_bin.S.j2", values))
    _write(folder / "app/product.c", render("app/product.c.j2", values))
    _write(folder / "app/test.c", render("app/test.c.j2", values))
    _write(folder / "README.md", render("package/README.md.j2", values))
    for name, text in linker_scripts(package).items():
        _write(folder / name, text)
    write_build_files(
        folder,
        board,
        package.prefix,
        Sources(("src/model.c", "src/model_bin.S", *library), port, FILE_NAMES[: len(contents.files)]),
        package.compiler,
    )
    package.save(folder)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tidy = lay_out(text) if path.suffix in (".c", ".h") else text
    path.write_text(tidy, encoding="utf-8", newline="\n")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def _copy_runtime(folder: Path, module: Module) -> tuple[str, ...]:
    """Copy the runtime and the kernels that are used; return the C sources."""
    runtime = data_folder("runtime_c")
    core = sorted((runtime / "core").glob("*.[ch]"))
    kernels = {runtime / header for header in module.headers}
    while True:  # kernels include kernels
        named = {runtime / name for path in kernels for name in _included_kernels(path)}
        if named <= kernels:
            break
        kernels |= named
    for path in [runtime / "include/colibri.h", *core, *sorted(kernels)]:
        _copy(path, folder / "runtime" / path.relative_to(runtime))
    return tuple(f"runtime/core/{path.name}" for path in core if path.suffix == ".c")


def _included_kernels(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split('"')[1] for line in lines if line.startswith('#include "kernels/')]


def _copy_port(folder: Path, board: Board) -> tuple[str, ...]:
    ports = data_folder("runtime_c") / "ports"
    names = port_files(board)
    for name in names:
        _copy(ports / name, folder / "port" / name)
    return tuple(f"port/{name.as_posix()}" for name in names if name.suffix == ".c")


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


def _common_values(contents: Contents) -> dict[str, object]:
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
        "weights_line": f"{package.scheme}, router fp32" + (f", key and value states {package.kv}" if tokens else ""),
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
        "fast_code": package.fast_code,
        "weights_apart": _apart(package.board),
        "model_params": _join(contents, "const void *{0}, size_t {0}_bytes"),
        "model_arguments": _join(contents, f"{package.prefix}_{{1}}, {prefix}_{{2}}_BYTES"),
        "first_token": 0,
        "routing": model.routing,
        "scheme": package.scheme,
        "licence": comment_text(contents.licence or "", 200),
        "dropped": [comment_text(note, 200) for note in graph.dropped],
        "fpu": package.board.cpu.fpu,
        "needs": region_needs(package),
        "bare": package.board.kind is BoardKind.BARE,
        "kind": str(package.board.kind),
        "suffix": image_suffix(package.board),
        "emulators": [emulator.name for emulator in package.board.emulators],
    }


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


def summary_line(package: Package) -> str:
    """The model in a few words."""
    model = package.model
    counts = sorted(set(model.experts))
    experts = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    layers = f"{len(model.experts)} layer{'s' if len(model.experts) > 1 else ''} of {experts} experts"
    shape = (
        f"vocabulary {model.outputs}, {_source(model)}context {package.context}, prefill {package.prefill}"
        if model.kind == "tokens"
        else f"{model.inputs} inputs, {model.outputs} outputs, batch {package.batch}"
    )
    return f"{model.parameters:,} parameters, {layers}, top {model.top_k}; {shape}."
