"""Write the files that build a package without Colibri: build.ninja, CMakeLists.txt, toolchain.cmake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from colibri.boards.profile import Board, BoardKind, Emulator
from colibri.emit.templates import render

_TRAPS = {"": "", "bkpt": "-DPORT_TRAP_BKPT", "svc": "-DPORT_TRAP_SVC", "ebreak": "-DPORT_TRAP_EBREAK"}
OVERSIZE = "build/oversize.elf"


@dataclass(frozen=True)
class Sources:
    """Files of the package, relative to its folder.

    Attributes:
        library: of the model and the runtime, C and assembler.
        port: of the start-up and console.
    """

    library: tuple[str, ...]
    port: tuple[str, ...]


@dataclass(frozen=True)
class _Object:
    output: str
    rule: str
    source: str
    extra: str = ""


@dataclass(frozen=True)
class _Image:
    output: str
    objects: list[str]
    script: str
    more: str = ""

    @property
    def name(self) -> str:
        """Output without its suffix: the linker's map and table stand beside it."""
        return self.output.removesuffix(".elf")


@dataclass(frozen=True)
class _Variant:
    title: str
    objects: list[_Object]
    images: list[_Image]


def product_trap(board: Board) -> str:
    """How the product reaches its console: the first trap that a debugger also understands, empty on Linux."""
    return next((e.trap for e in board.emulators if e.trap in ("bkpt", "ebreak")), "")


def runs_product(board: Board, emulator: Emulator) -> bool:
    """Whether the product's own image runs in the emulator: same addresses, same trap."""
    return not emulator.origins and emulator.trap == product_trap(board)


def image_name(board: Board, emulator: Emulator, role: str) -> str:
    """Path in the package of the image that runs in an emulator; ``role`` is ``product`` or ``test``."""
    if role == "product" and runs_product(board, emulator):
        return "build/product.elf"
    return f"build/{role}-{emulator.name}.elf"


def product_targets(board: Board) -> list[str]:
    """What makes the product: the ELF, and for bare metal the files that flash tools take."""
    return ["build/product.elf", *(["build/product.bin", "build/product.hex"] if board.kind is BoardKind.BARE else [])]


def script_name(board: Board, emulator: Emulator | None) -> str:
    """Linker script of the product (None) or of an emulator; empty on Linux."""
    if board.kind is not BoardKind.BARE:
        return ""
    return "port/board.ld" if emulator is None or not _own_map(emulator) else f"port/{emulator.name}.ld"


def _own_map(emulator: Emulator) -> bool:
    return bool(emulator.origins) or emulator.trap == "svc"


def _object(source: str, folder: str, extra: str = "") -> _Object:
    rule = "assemble" if source.endswith(".S") else "compile"
    return _Object(f"build/{folder}/{PurePosixPath(source).with_suffix('.o')}", rule, source, extra)


def _variant(board: Board, sources: Sources, title: str, folder: str, trap: str, mains: dict[str, str], script: str) -> _Variant:
    freestanding = "-ffreestanding" if board.kind is BoardKind.BARE else ""
    extra = " ".join(part for part in (freestanding, _TRAPS[trap]) if part)
    port = [_object(source, folder, extra) for source in sources.port]
    objects, images = list(port), []
    for output, source in mains.items():
        main = _object(source, folder, extra)
        objects.append(main)
        images.append(_Image(output, [main.output, *(part.output for part in port)], script))
    return _Variant(title, objects, images)


def _variants(board: Board, sources: Sources) -> list[_Variant]:
    product = _variant(
        board, sources, "the product", "product", product_trap(board), {"build/product.elf": "app/product.c"},
        script_name(board, None),
    )  # fmt: skip
    if board.kind is BoardKind.BARE:
        anyway = _Image(OVERSIZE, product.images[0].objects, product.images[0].script, " -Wl,--noinhibit-exec")
        product.images.append(anyway)
    variants = [product]
    for emulator in board.emulators:
        mains = {image_name(board, emulator, "test"): "app/test.c"}
        if not runs_product(board, emulator):
            mains[image_name(board, emulator, "product")] = "app/product.c"
        variants.append(
            _variant(
                board, sources, f"for the emulator {emulator.name}", emulator.name, emulator.trap, mains,
                script_name(board, emulator),
            )
        )  # fmt: skip
    return variants


def write_build_files(folder: Path, board: Board, prefix: str, sources: Sources) -> None:
    """Write build.ninja, CMakeLists.txt and toolchain.cmake into the package."""
    variants = _variants(board, sources)
    bare = board.kind is BoardKind.BARE
    images = [image.output for variant in variants for image in variant.images if image.output != OVERSIZE]
    tool = board.toolchain.prefix
    values = {
        "p": prefix,
        "board": board.id,
        "arch": board.cpu.arch,
        "prefix": tool,
        "bare": bare,
        "cc": f"{tool}gcc",
        "ar": f"{tool}ar",
        "objcopy": f"{tool}objcopy",
        "cpu_flags": " ".join(board.toolchain.flags),
        "library": [_object(source, "library") for source in sources.library],
        "library_sources": sources.library,
        "port_sources": sources.port,
        "product_options": f"-ffreestanding {_TRAPS[product_trap(board)]} " if bare else "",
        "archive": f"build/lib{prefix}.a",
        "variants": variants,
        "defaults": [*images, "build/product.bin", "build/product.hex"] if bare else images,
    }
    for template in ("build.ninja", "CMakeLists.txt", "toolchain.cmake"):
        (folder / template).write_text(render(f"package/{template}.j2", values), encoding="utf-8")
