"""How deep the public functions went where no plugin watches stores: the test program paints its stack.

`runtime_c/ports/paint.h` says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colibri.boards.profile import BoardKind, Emulator
from colibri.called import called_functions
from colibri.emulate.protocol import Request, encode_requests, parse_responses
from colibri.emulate.runner import run
from colibri.errors import EmulatorFailed
from colibri.footprint.call_depth import depth_of, start_of
from colibri.footprint.stack import Bounds, Observed, ObservedEntry, Tree, tree_of
from colibri.package import Package
from colibri.toolchain.buildfiles import image_name
from colibri.vectors import Case

_DEPTHS = "D"  # the request that makes the test program paint, and that answers with the depths so far


def observe_painted(
    folder: Path, package: Package, emulator: Emulator, cases: Sequence[Case], timeout: float
) -> Observed:
    """Run a test program that is built on all golden inputs, and have it measure its calls.

    Raises:
        BadInput: the image or its map cannot be read.
        EmulatorFailed: a hang, a fault, an exit code that is not 0, or a damaged answer.
        ToolMissing: no emulator or no disassembler.
    """
    image = folder / image_name(package.board, emulator, "test")
    requests = [Request(_DEPTHS), *(case.request for case in cases), Request(_DEPTHS)]
    outcome = run(image, package.board, emulator, request=encode_requests(requests), timeout=timeout)
    where = f"{package.board.id} on {emulator.name}"
    if outcome.exit_code != 0:
        raise EmulatorFailed(f"the test program ended with code {outcome.exit_code}", where=where)
    names = called_functions(package.model, package.prefix)
    last = parse_responses(outcome.output)[-1]
    if last.op != _DEPTHS or len(last.words) != len(names) + 1:
        hint = "build the package again"
        raise EmulatorFailed("the test program does not say how deep its calls went", where=where, hint=hint)
    tree = tree_of(folder, package, image)
    bounds = Bounds(tree)
    entries = tuple(
        ObservedEntry(name, bounds.of(name).bytes, depth) for name, depth in zip(names, last.words, strict=False)
    )
    return Observed(emulator.name, _program(tree, bounds, package, max(last.words)), entries, ())


def _program(tree: Tree, bounds: Bounds, package: Package, deepest: int) -> ObservedEntry:
    """What was in use where functions are called, and how deep it went below."""
    start = start_of(package.board.kind)
    bound = bounds.of(start.root).bytes
    if package.board.kind is BoardKind.WINDOWS:  # where the system's stack begins is not known
        return ObservedEntry(start.root, bound, None)
    above = depth_of(tree, (called_functions(package.model, package.prefix)[0],), start)
    return ObservedEntry(start.root, bound, None if above is None else above + deepest)
