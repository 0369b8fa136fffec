"""The bytes of RAM that the report prints are exactly what the product needs: it builds and runs in them, and in one
byte less it does not build.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from board_packages import EXAMPLES, PRUNED, Make
from selection import OFTEN, TELLING, boards_with_models, of_kind

from colibri.boards.load import load_board
from colibri.boards.profile import Board, BoardKind, Emulator, Holds, MemoryKind
from colibri.cli import main
from colibri.emit.linker import Plan, linker_script
from colibri.emulate.plugin import memory_check
from colibri.emulate.runner import run
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit
from colibri.footprint.report import Report, make_report
from colibri.generate import Options
from colibri.graph.graph import StateType
from colibri.package import Package, load_package
from colibri.passes.quantise import Scheme
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import PRODUCT, image_name, product_trap, script_name

SELECTED = boards_with_models(of_kind(BoardKind.BARE, TELLING), of_kind(BoardKind.BARE, OFTEN))
MODELS = {
    "sensor": ("load-moe/top1-e4", Options()),
    "language": ("shakespeare-moe", Options(Scheme.W4A8, StateType.F16, prefill=4, context=32, drop=PRUNED)),
}
COMMANDS = {
    "sensor": [str(EXAMPLES / "load-moe/top1-e4")],
    "language": [
        str(EXAMPLES / "shakespeare-moe"), "--scheme", "w4a8", "--kv", "f16", "--prefill", "4", "--context", "32",
        *(word for layer, ids in PRUNED.items() for one in sorted(ids) for word in ("--drop-expert", f"{layer}:{one}")),
    ],
}  # fmt: skip


def of_length(board: Board, lengths: dict[str, int]) -> Board:
    memory = tuple(
        msgspec.structs.replace(region, length=lengths.get(region.name, region.length)) for region in board.memory
    )
    return msgspec.structs.replace(board, memory=memory)


def write_board(path: Path, name: str, lengths: dict[str, int]) -> Path:
    """A board like the named one, with all RAM but one region left to the application, so that the plan has no choice.

    The reserve is nothing: what the report prints is then all that there is.
    """
    board = of_length(load_board(name), lengths)
    home = board.region_for(Holds.DATA)
    lines = [f'inherits = "{name}"', "reserve = 0"]
    for region in board.memory:
        holds = [str(one) for one in region.holds] if region.kind is MemoryKind.FLASH or region == home else []
        lines += ["[[memory]]", f'name = "{region.name}"', f'kind = "{region.kind}"', f"origin = {region.origin}"]
        lines += [f"length = {region.length}", f"holds = {json.dumps(holds)}"]
    path.write_text("\n".join([*lines, ""]))
    return path


@SELECTED
def test_the_printed_bytes_of_ram_suffice_and_no_fewer(
    board: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = load_board(board).region_for(Holds.DATA).name

    def built(title: str, lengths: dict[str, int]) -> tuple[int, int, str]:
        """Exit code, bytes of RAM that the report prints, and what the command complains of."""
        changed = write_board(tmp_path / f"{title}.toml", board, lengths)
        # The stack as the board has it: a fitted one would need less than the board file must allow for it.
        code = main(["build", *COMMANDS[model], "--board", str(changed), "-o", str(tmp_path / title), "--no-fit-stack"])
        complaint = capsys.readouterr().err
        assert main(["report", str(tmp_path / title), "--json"]) == code
        report = msgspec.json.decode(capsys.readouterr().out, type=Report)
        ram = {region.name: region.used for region in report.regions if region.kind is MemoryKind.RAM and region.used}
        assert list(ram) == [home]
        return code, ram[home], complaint

    code, needed, complaint = built("roomy", {})
    assert (code, complaint) == (0, "")
    assert built("exact", {home: needed}) == (0, needed, "")
    assert (tmp_path / "exact/build/product.elf").is_file()
    code, used, complaint = built("short", {home: needed - 1})
    assert (code, used) == (3, needed)
    assert f"the image is too large: {home} by 1 byte" in complaint
    assert not (tmp_path / "short/build/product.elf").exists()


def hold_plan(folder: Path, lengths: dict[str, int]) -> None:
    """Other lengths of memory for a package that has its plan: what `generate` wrote of the board is written anew."""
    package = load_package(folder)
    board = msgspec.structs.replace(of_length(package.board, lengths), reserve=0)
    package = msgspec.structs.replace(package, board=board)
    for emulator in (None, *board.emulators):
        text = linker_script(board, emulator, package.prefix, Plan.of(package))
        (folder / script_name(board, emulator)).write_text(text)
    package.save(folder)


def answers(folder: Path, package: Package, emulator: Emulator) -> bytes:
    """What the product prints, run with every access checked against its own segments."""
    if package.model.kind == "tokens":
        request = np.array([package.context - 3, 4, 5, 6, 7, 8], "<u4").tobytes()
    else:
        samples = np.random.default_rng(1).standard_normal((8, package.model.inputs)).astype("<f4")
        request = np.array([8], "<u4").tobytes() + samples.tobytes()
    image = folder / image_name(package.board, emulator, "product")
    assert build(folder, [image.relative_to(folder).as_posix()])
    outcome = run(image, package.board, emulator, request=request, timeout=120, plugin=memory_check(image))
    assert outcome.exit_code == 0
    assert outcome.observation is not None
    assert outcome.observation.memory is not None
    memory = outcome.observation.memory
    assert (memory.unaligned.count, memory.outside.count) == (0, 0)
    assert memory.lowest_stack_store is not None
    assert memory.lowest_stack_store >= Symbols.of(image).values["port_stack_limit"]
    return outcome.output


@pytest.mark.emulator
@SELECTED
def test_the_product_runs_in_the_printed_bytes_of_every_region(board: str, model: str, make: Make) -> None:
    checkpoint, options = MODELS[model]
    folder, package = make(EXAMPLES / checkpoint, board, options)
    assert build(folder, [PRODUCT])
    ram = {r.name: r.used for r in make_report(folder).regions if r.kind is MemoryKind.RAM and r.used}
    # The others have start-up code that a product has not, and which needs memory for itself.
    emulators = [one for one in package.board.emulators if one.trap == product_trap(package.board)]
    assert emulators
    roomy = {emulator.name: answers(folder, package, emulator) for emulator in emulators}

    hold_plan(folder, ram)
    assert build(folder, [PRODUCT])
    report = make_report(folder)
    report.require_fit()
    assert {r.name: r.limit - r.used for r in report.regions if r.name in ram} == dict.fromkeys(ram, 0)
    exact = {emulator.name: answers(folder, load_package(folder), emulator) for emulator in emulators}
    assert exact == roomy
    assert all(output.count(b"> ") >= 8 for output in exact.values())

    for region in ram:
        hold_plan(folder, {**ram, region: ram[region] - 1})
        assert not build(folder, [PRODUCT])
        with pytest.raises(DoesNotFit, match=f"the image is too large: {region} by 1 byte"):
            make_report(folder).require_fit()
