"""Build the chosen point, and measure what was built on the rows that were kept for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from colibri.errors import DoesNotFit
from colibri.fit.fit import Request, Searched
from colibri.fit.model import Fit
from colibri.footprint.report import Report
from colibri.instructions import count_instructions
from colibri.package import Package
from colibri.product import make_product
from colibri.profile.profile import default_emulator
from colibri.progress import Progress, unseen
from colibri.recipe import parse_recipe
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name
from colibri.toolchain.compiler import Installed


@dataclass(frozen=True)
class Built:
    """What came of it: the search with its final figures, and the report of the package."""

    fit: Fit
    package: Package
    report: Report


def build_chosen(searched: Searched, request: Request, installed: Installed, progress: Progress = unseen) -> Built:
    """Build the point that was asked for, or the one of the least loss that the linker finds room for.

    Raises:
        DoesNotFit: the code is larger than predicted, or there are too many instructions, and nothing else was tried.
        ColibriError: as `make_product`.
    """
    failures: list[DoesNotFit] = []
    for number, final in searched.finals.items():
        options = parse_recipe(searched.fit.front[number].recipe)
        package, report = make_product(
            request.checkpoint, searched.board, options, request.out, installed, progress=progress
        )
        try:
            report.require_fit()
            counted = _instructions(request, package, request.out)
        except DoesNotFit as error:
            failures.append(error)
            continue
        final = msgspec.structs.replace(
            final,
            regions={region.name: region.used for region in report.regions},
            package=str(request.out),
            instructions=counted[0] if counted else None,
            unit=counted[1] if counted else "",
        )
        return Built(msgspec.structs.replace(searched.fit, chosen=number, final=final), package, report)
    few = [error for error in failures if isinstance(error, TooManyInstructions)]
    raise min(few, key=lambda error: error.counted, default=failures[-1])


class TooManyInstructions(DoesNotFit):
    """More than the limit: ``counted`` of them."""

    def __init__(self, counted: int, limit: int, unit: str, where: str) -> None:
        what = f"{counted:,} instructions per {unit}, more than {limit:,}"
        super().__init__(what, where=where, hint="raise --max-instructions, or search elsewhere with --only")
        self.counted = counted


def _instructions(request: Request, package: Package, folder: Path) -> tuple[int, str] | None:
    """Counted by the emulator, where there is a limit.

    Raises:
        DoesNotFit: more than the limit.
        UsageError: no emulator of the board counts.
    """
    if request.max_instructions is None:
        return None
    emulator = default_emulator(package.board)
    if not build(folder, [image_name(package.board, emulator, "test")]):
        raise DoesNotFit("the test image does not fit", where=package.board.id, hint="see `colibri report`")
    counted = count_instructions(folder, package, emulator)
    assert counted is not None
    if counted.per_call > request.max_instructions:
        where = f"{package.board.id} on {emulator.name}"
        raise TooManyInstructions(counted.per_call, request.max_instructions, counted.unit, where)
    return counted.per_call, counted.unit
