"""The wall of a board's memory: the bytes that the report prints are enough, and one byte fewer is not.

Shared by the tests, which take some boards, and `ci/report-check`, which takes all.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from colibri.boards.profile import Board, BoardKind, Emulator, MemoryKind
from colibri.emit.linker import linker_scripts
from colibri.emulate.plugin import memory_check
from colibri.emulate.runner import run
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit
from colibri.footprint.report import make_report
from colibri.package import Package, load_package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name, product_name, product_trap


def of_length(board: Board, lengths: dict[str, int]) -> Board:
    """The board with other lengths of memory."""
    memory = tuple(
        msgspec.structs.replace(region, length=lengths.get(region.name, region.length)) for region in board.memory
    )
    return msgspec.structs.replace(board, memory=memory)


def check_walls(folder: Path, timeout: float = 120.0) -> tuple[list[str], list[str]]:
    """The product of a package in exactly the RAM that the report prints, and in each region in one byte less.

    The package is left with these lengths.

    Returns:
        the regions of RAM that it has bytes in, and the emulators in which it ran.
    """
    package = load_package(folder)
    product = product_name(package.board)
    assert build(folder, [product])
    ram = {r.name: r.used for r in make_report(folder).regions if r.kind is MemoryKind.RAM and r.used}
    # The others have start-up code that a product has not, and which needs memory for itself.
    emulators = [one for one in package.board.emulators if one.trap == product_trap(package.board)]
    assert emulators
    roomy = {emulator.name: answers(folder, package, emulator, timeout) for emulator in emulators}

    hold_plan(folder, ram)
    assert build(folder, [product]), "it does not build in the bytes that the report prints"
    report = make_report(folder)
    report.require_fit()
    assert {r.name: r.limit - r.used for r in report.regions if r.name in ram} == dict.fromkeys(ram, 0)
    exact = {emulator.name: answers(folder, load_package(folder), emulator, timeout) for emulator in emulators}
    assert exact == roomy, "it answers otherwise in the bytes that the report prints"
    assert all(output.count(b"> ") >= 8 for output in exact.values())

    for region in ram:
        hold_plan(folder, {**ram, region: ram[region] - 1})
        refusal = _refusal(folder, package)
        if f"{region} by 1 byte" not in refusal:
            raise AssertionError(f"with a byte less of {region}: {refusal or 'it fits'}")
    return list(ram), list(exact)


def _refusal(folder: Path, package: Package) -> str:
    """Why the product is too large; empty when it fits."""
    try:
        # Under a loader no wall stops a linker, but `colibri build` ends with 3 all the same.
        if build(folder, [product_name(package.board)]) and package.board.kind is BoardKind.BARE:
            return ""
        make_report(folder).require_fit()
    except DoesNotFit as refusal:
        return refusal.what
    return ""


def hold_plan(folder: Path, lengths: dict[str, int]) -> None:
    """Other lengths of memory for a package that has its plan: what `generate` wrote of the board is written anew."""
    package = load_package(folder)
    board = msgspec.structs.replace(of_length(package.board, lengths), reserve=0)
    package = msgspec.structs.replace(package, board=board)
    for name, text in linker_scripts(package).items():
        (folder / name).write_text(text)
    package.save(folder)


def product_request(package: Package) -> bytes:
    """What the product reads: a text that fills the context, or 8 samples."""
    if package.model.kind == "tokens":
        return np.array([package.context - 3, 4, 5, 6, 7, 8], "<u4").tobytes()
    samples = np.random.default_rng(1).standard_normal((8, package.model.inputs)).astype("<f4")
    return np.array([8], "<u4").tobytes() + samples.tobytes()


def answers(folder: Path, package: Package, emulator: Emulator, timeout: float = 120.0) -> bytes:
    """What the product prints; in QEMU, run with every access checked against its own segments."""
    request = product_request(package)
    image = folder / image_name(package.board, emulator, "product")
    assert build(folder, [image.relative_to(folder).as_posix()])
    plugin = memory_check(image) if emulator.kind.is_qemu else None
    outcome = run(image, package.board, emulator, request=request, timeout=timeout, plugin=plugin)
    assert outcome.exit_code == 0
    if plugin is None:
        return outcome.output
    assert outcome.observation is not None
    assert outcome.observation.memory is not None
    memory = outcome.observation.memory
    # Under Linux unaligned accesses are the C library's right.
    unaligned = memory.unaligned.count if package.board.kind is BoardKind.BARE else 0
    assert (unaligned, memory.outside.count) == (0, 0), f"{memory.unaligned}, {memory.outside}"
    limit = Symbols.of(image).values.get("port_stack_limit")
    if limit is not None:
        assert memory.lowest_stack_store is not None
        assert memory.lowest_stack_store >= limit
    return outcome.output
