"""Write the files that build a package without Colibri: build.ninja, CMakeLists.txt, toolchain.cmake."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from colibri.boards.check_emulators import TRAPS
from colibri.boards.profile import Board, BoardKind, CompilerFamily, Emulator, Holds
from colibri.emit.templates import render
from colibri.optimise import Optimise
from colibri.toolchain.compiler import Compiler, standard_compiler
from colibri.toolchain.quote import cmake_text, ninja_words

Role = Literal["product", "test", "bench"]

PRODUCT = "build/product.elf"  # of bare metal, which alone can overflow
OVERSIZE = "build/oversize.elf"
OVERSIZE_SCRIPT = "port/oversize.ld"  # of zig and clang, whose lld does not link past the walls of another
PRODUCT_BIN = "build/product.bin"
PRODUCT_HEX = "build/product.hex"
PRODUCT_UF2 = "build/product.uf2"  # not of ninja: objcopy does not know the format

_SUFFIXES = {BoardKind.WASM: ".wasm", BoardKind.WINDOWS: ".exe"}

_LIBRARY = "library"  # the rule, and the folder, of the archive's objects


@dataclass(frozen=True)
class Sources:
    """Files of the package, relative to its folder.

    Attributes:
        library: of the model and the runtime, C and assembler.
        port: of the start-up and console.
        weights: files that ``src/model_bin.S`` links in.
        threads: whether the programs start some.
    """

    library: tuple[str, ...]
    port: tuple[str, ...]
    weights: tuple[str, ...] = ("model.bin",)
    threads: bool = False


@dataclass(frozen=True)
class _Object:
    output: str
    rule: str
    source: str


@dataclass(frozen=True)
class _Programs:
    """How main programs and the port are compiled: once for each way to the host.

    Attributes:
        rule: name of the rule, and of the folder of its objects.
        define: preprocessor symbol of the trap; empty on Linux.
    """

    rule: str
    define: str
    objects: list[_Object]


@dataclass(frozen=True)
class _Image:
    """One link.

    Attributes:
        name: output without its suffix: the linker's map and table stand beside it.
        main: source of ``main()``.
        define: as its objects were compiled with.
        script: linker script; empty on Linux.
    """

    name: str
    main: str
    define: str
    script: str
    objects: list[str]


def mains(board: Board) -> dict[Role, str]:
    """Sources of the programs that a package has; a bench only where a clock says something of the board."""
    found: dict[Role, str] = {"product": "app/product.c", "test": "app/test.c"}
    return {**found, "bench": "app/bench.c"} if board.kind is BoardKind.LINUX else found


def product_trap(board: Board) -> str:
    """How the product reaches its console: as a debug probe understands it too; empty on Linux."""
    return TRAPS[board.cpu.arch][0] if board.kind is BoardKind.BARE else ""


def runs_product(board: Board, emulator: Emulator) -> bool:
    """Whether the board's own images run in the emulator: same addresses, same trap."""
    return not emulator.origins and emulator.trap == product_trap(board)


def image_name(board: Board, emulator: Emulator, role: Role) -> str:
    """Path in the package of the image that runs in an emulator."""
    name = role if runs_product(board, emulator) else f"{role}-{emulator.name}"
    return f"build/{name}{image_suffix(board)}"


def product_name(board: Board) -> str:
    """Path in the package of the product's image."""
    return f"build/product{image_suffix(board)}"


def bench_name(board: Board) -> str:
    """Path in the package of the program that measures time, where there is one."""
    return f"build/bench{image_suffix(board)}"


def image_suffix(board: Board) -> str:
    """What the names of the board's images end with."""
    return _SUFFIXES.get(board.kind, ".elf")


def script_name(board: Board, emulator: Emulator | None) -> str:
    """Linker script of the board's own images (None) or of those for an emulator; empty on Linux."""
    if board.kind is not BoardKind.BARE:
        return ""
    return "port/board.ld" if emulator is None or runs_product(board, emulator) else f"port/{emulator.name}.ld"


def product_targets(board: Board, family: CompilerFamily) -> list[str]:
    """What ninja makes of the product: the image and, on bare metal, its raw and hexadecimal forms."""
    return [product_name(board), *_flashed(board, family)]


def _flashed(board: Board, family: CompilerFamily) -> tuple[str, ...]:
    """Zig's objcopy puts RAM into a raw image, up to gigabytes of zeros."""
    if board.kind is not BoardKind.BARE:
        return ()
    return (PRODUCT_HEX,) if family is CompilerFamily.ZIG else (PRODUCT_BIN, PRODUCT_HEX)


def write_build_files(
    folder: Path,
    board: Board,
    prefix: str,
    sources: Sources,
    compiler: Compiler | None = None,
    optimise: Optimise = Optimise.SPEED,
) -> None:
    """Write build.ninja, CMakeLists.txt and toolchain.cmake into the package.

    They name programs and files, never folders of this machine, so that equal packages are equal files.

    Args:
        prefix: of the model; the archive is ``build/libPREFIX.a``.
        compiler: another than the board's own.
        optimise: what the code is made for.
    """
    values = _values(board, prefix, sources, compiler or standard_compiler(board), optimise)
    for template in ("build.ninja", "CMakeLists.txt", "toolchain.cmake"):
        text = render(f"package/{template}.j2", values)
        (folder / template).write_text(text, encoding="utf-8", newline="\n")


def _values(board: Board, prefix: str, sources: Sources, compiler: Compiler, optimise: Optimise) -> dict[str, object]:
    bare = board.kind is BoardKind.BARE
    suffix = image_suffix(board)
    images = _images(board, sources)
    target = [part for part in compiler.target if not part.startswith("--sysroot=")]
    link = compiler.link_options(board.kind)
    library = f"$({shlex.join(compiler.library)})" if compiler.library else " ".join(compiler.bare_libraries)
    if compiler.library and not bare:
        library = f'-L"$(dirname "{library}")"'
    return {
        "p": prefix,
        "board": board.id,
        "bare": bare,
        "family": str(compiler.family),
        "wasm": board.kind is BoardKind.WASM,
        "windows": board.kind is BoardKind.WINDOWS,
        "suffix": suffix,
        "threads": sources.threads,
        "stack_bytes": board.stack,
        # A compiler for another system than the one at hand: CMake wants to know, except from the host's own.
        "cross": board.kind is not BoardKind.LINUX or bool(board.toolchain.prefix),
        "processor": board.cpu.arch,
        "level": optimise.level_of(compiler.family),
        "cc": ninja_words(compiler.cc),
        "ar": ninja_words(compiler.ar),
        "objcopy": ninja_words(compiler.objcopy),
        "cpu": ninja_words((*compiler.target, *compiler.flags)),
        "more": ninja_words((*compiler.last_flags, *board.toolchain.cflags)),
        "libs": library.replace("$", "$$"),
        "link_options": ninja_words(link),
        # The report bounds the stack with it; the other families have nothing like it.
        "call_graph": "-fcallgraph-info=su" if compiler.family is CompilerFamily.GCC else "",
        "cmake": {
            "cc": ";".join(compiler.cc),
            "ar": compiler.ar,
            "flags": " ".join((*target, *compiler.flags)),
            "sysroot": cmake_text(board.toolchain.sysroot),
            "more": (*compiler.last_flags, *board.toolchain.cflags),
            "library": compiler.library,
            "linker": link,
        },
        "processor_flags": " ".join(compiler.flags),
        "library": [_object(source, _LIBRARY) for source in sources.library],
        "port_sources": sources.port,
        "model_files": sources.weights,
        "elsewhere": "".join(f" -R {section}" for section in _elsewhere(board)) if bare else "",
        "programs": _programs(board, sources),
        "images": images,
        "oversize_script": images[0].script if compiler.family is CompilerFamily.GCC else OVERSIZE_SCRIPT,
        "flashed": "".join(f", {PurePosixPath(path).suffix}" for path in _flashed(board, compiler.family)),
        "defaults": [
            f"build/lib{prefix}.a",
            *(f"{image.name}{suffix}" for image in images),
            *_flashed(board, compiler.family),
        ],
    }


def _elsewhere(board: Board) -> list[str]:
    """Weights in a flash of their own are written there as they are; a raw image would span the gap."""
    code = board.region_for(Holds.CODE).name
    homes = {".model": board.region_for(Holds.WEIGHTS).name, ".hot_weights": board.hot_region}
    return [section for section, region in homes.items() if region not in ("", code)]


def _programs(board: Board, sources: Sources) -> list[_Programs]:
    traps = dict.fromkeys([product_trap(board), *(emulator.trap for emulator in board.emulators)])
    return [
        _Programs(
            _rule(trap),
            _define(trap),
            [_object(source, _rule(trap)) for source in (*mains(board).values(), *sources.port)],
        )
        for trap in traps
    ]


def _images(board: Board, sources: Sources) -> list[_Image]:
    own = [emulator for emulator in board.emulators if not runs_product(board, emulator)]
    return [_image(board, emulator, role, sources) for emulator in (None, *own) for role in mains(board)]


def _image(board: Board, emulator: Emulator | None, role: Role, sources: Sources) -> _Image:
    trap = emulator.trap if emulator else product_trap(board)
    output = PurePosixPath(image_name(board, emulator, role) if emulator else f"build/{role}{image_suffix(board)}")
    return _Image(
        name=str(output.with_suffix("")),
        main=mains(board)[role],
        define=_define(trap),
        script=script_name(board, emulator),
        objects=[_object(source, _rule(trap)).output for source in (mains(board)[role], *sources.port)],
    )


def _rule(trap: str) -> str:
    return trap or "program"


def _define(trap: str) -> str:
    return f"PORT_TRAP_{trap.upper()}" if trap else ""


def _object(source: str, rule: str) -> _Object:
    """The object of a source, in a folder of its own for each way to compile it."""
    output = PurePosixPath("build") / rule / PurePosixPath(source).with_suffix(".o")
    return _Object(str(output), "assemble" if source.endswith(".S") else rule, source)
