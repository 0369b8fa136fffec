"""One cell: generate, build, measure, run in every emulator that is here. A process of its own, started by ninja."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from colibri.boards.load import load_board
from colibri.boards.profile import Board, EmulatorKind, MemoryKind
from colibri.claim import claimed
from colibri.errors import ColibriError, DoesNotFit, shown
from colibri.footprint.report import Report, make_report
from colibri.generate import generate
from colibri.matrix.model import Cell, Result, Run, State, nothing, worst
from colibri.recipe import parse_recipe
from colibri.reserve import fit_stack
from colibri.testing import EmulatorResult, check_package
from colibri.toolchain.build import build_product
from colibri.toolchain.compiler import Installed
from colibri.toolchain.find import find_toolchain
from colibri.toolchain.places import remember
from colibri.toolchain.probe import examine_emulator

CELL, RESULT, PACKAGE = "cell.json", "result.json", "package"


def run_cell(cell: Cell, folder: Path, timeout: float) -> Result:
    """Do all of it into ``folder``; whatever fails is part of the result."""
    began = time.monotonic()
    try:
        board = load_board(cell.board)
        result = _built(cell, board, folder, timeout)
    except ColibriError as error:
        result = _result(cell, folder, error.exit_code, str(error))
    except Exception as error:  # the other cells go on
        result = _result(cell, folder, 70, f"internal error: {type(error).__name__}: {shown(str(error))}")
    return msgspec.structs.replace(result, seconds=round(time.monotonic() - began, 1))


def _built(cell: Cell, board: Board, folder: Path, timeout: float) -> Result:
    installed = find_toolchain(board, cell.toolchain)
    generate(Path(cell.checkpoint), board, parse_recipe(cell.recipe_file or cell.recipe), folder, installed.compiler)
    with claimed(folder):
        remember(folder, installed)
        build_product(folder, board)
        if fit_stack(folder) is not None:
            build_product(folder, board)
        report = make_report(folder)
    try:
        report.require_fit()
        code, error = 0, ""
    except DoesNotFit as wall:
        code, error = wall.exit_code, str(wall)
    runs: list[Run] = []
    if report.linked:
        runs, codes, errors = _runs(board, installed, folder, timeout)
        code = worst([code, *codes])
        error = "; ".join([*([error] if error else []), *errors])
    stack = report.stack.program.bytes if report.stack else None
    return msgspec.structs.replace(
        _result(cell, folder, code, error),
        toolchain=cell.toolchain or str(installed.compiler.family),
        fits=not report.over() and report.linked,
        over=dict(report.over()),
        flash=_bytes(report, MemoryKind.FLASH),
        ram=_bytes(report, MemoryKind.RAM),
        stack=stack,
        runs=tuple(runs),
    )


def _runs(board: Board, installed: Installed, folder: Path, timeout: float) -> tuple[list[Run], list[int], list[str]]:
    """Each emulator, with the exit codes and lines of those that are not here, failed, or answered other bits."""
    runs, codes, errors = [], [], []
    for emulator in board.emulators:
        found = examine_emulator(board, emulator, installed)
        if found.problem:
            runs.append(Run(emulator.name, str(emulator.proves), State.MISSING, why=found.problem))
            if emulator.kind is not EmulatorKind.NATIVE:  # not every machine is like the board
                codes.append(4)
                errors.append(f"{emulator.name}: {found.problem}")
            continue
        try:
            (result,) = check_package(folder, emulators=(emulator.name,), timeout=timeout, instructions=True)
        except ColibriError as error:
            result = EmulatorResult(emulator.name, str(emulator.proves), 0, 0, "", (), failure=str(error))
            codes.append(error.exit_code)
        else:
            codes.append(7 if result.failure else int(bool(result.mismatches)))
        run = _run(result)
        runs.append(run)
        errors += [f"{run.emulator}: {run.why}"] if run.why else []
    return runs, codes, errors


def _run(result: EmulatorResult) -> Run:
    state = State.FAILED if result.failure else State.DIFFERENT if result.mismatches else State.EQUAL
    first = next((f"{line.case}: {line.what}" for line in result.mismatches), "")
    counted = result.instructions
    return Run(
        emulator=result.emulator,
        proves=result.proves,
        state=state,
        digest=result.digest if result.outputs else "",
        instructions=counted.per_call if counted else None,
        unit=counted.unit if counted else "",
        why=result.failure or first,
    )


def _result(cell: Cell, folder: Path, code: int, error: str) -> Result:
    return nothing(cell, f"{folder.parent.name}/{folder.name}", code, error)


def _bytes(report: Report, kind: MemoryKind) -> int:
    return sum(region.used for region in report.regions if region.kind is kind)


def main(arguments: list[str]) -> int:
    """Of ``FOLDER TIMEOUT …``: what follows only makes ninja see a change. 0 when there is nothing to do again."""
    folder = Path(arguments[0])
    cell = msgspec.json.decode((folder / CELL).read_bytes(), type=Cell)
    result = run_cell(cell, folder / PACKAGE, float(arguments[1]))
    beside = folder / f"{RESULT}.new"
    beside.write_bytes(msgspec.json.encode(result))
    beside.replace(folder / RESULT)
    return 0 if result.code in (0, 3) else result.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
