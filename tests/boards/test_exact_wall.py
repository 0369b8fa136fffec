"""The bytes of RAM that the report prints are exactly what the product needs: it builds and runs in them, and in one
byte less it does not build.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from board_packages import EXAMPLES, PRUNED, Make
from selection import OFTEN, TELLING, boards_with_models, of_kind
from walls import check_walls, of_length

from colibri.boards.load import load_board
from colibri.boards.profile import BoardKind, Holds, MemoryKind
from colibri.cli import main
from colibri.footprint.report import Report
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options

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


@pytest.mark.emulator
@SELECTED
def test_the_product_runs_in_the_printed_bytes_of_every_region(board: str, model: str, make: Make) -> None:
    checkpoint, options = MODELS[model]
    folder, package = make(EXAMPLES / checkpoint, board, options)
    regions, emulators = check_walls(folder)
    assert set(regions) >= {block.region for block in package.memory.blocks}
    assert emulators
