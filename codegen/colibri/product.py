"""From a checkpoint to a linked product and its report: what `build` and `fit` do."""

from __future__ import annotations

from pathlib import Path

from colibri import reserve
from colibri.boards.profile import Board
from colibri.claim import claimed
from colibri.errors import UsageError
from colibri.footprint.report import Report, make_report
from colibri.generate import generate
from colibri.options import Options
from colibri.package import Package, load_package
from colibri.progress import Progress, unseen
from colibri.toolchain.build import build_product
from colibri.toolchain.compiler import Installed
from colibri.toolchain.places import remember


def make_product(
    checkpoint: Path,
    board: Board,
    options: Options,
    folder: Path,
    installed: Installed,
    *,
    fit_stack: bool = True,
    progress: Progress = unseen,
) -> tuple[Package, Report]:
    """Generate, compile, link and measure; whether it fits the report says.

    Args:
        fit_stack: reserve for the stack what its bound needs.

    Raises:
        ColibriError: as `generate` and `build_product`.
        UsageError: another Colibri builds in the folder.
    """
    package = generate(checkpoint, board, options, folder, installed.compiler, progress)
    with claimed(folder):
        if load_package(folder) != package:
            hint = "build again, or choose another folder with -o"
            raise UsageError("another colibri has replaced the package", where=str(folder), hint=hint)
        remember(folder, installed)
        build_product(folder, board)
        if fit_stack and reserve.fit_stack(folder) is not None:
            build_product(folder, board)
        return package, make_report(folder)
