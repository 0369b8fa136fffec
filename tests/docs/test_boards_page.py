"""docs/boards.md: its tables are what the classes say, its example is a board, and its claims hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from colibri.boards.check_memory import VECTORS_ALIGN
from colibri.boards.keys import keys, keys_text
from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Holds, Proves
from colibri.boards.table import board_list
from colibri.cli import main
from colibri.footprint.report import make_report
from colibri.generate import generate
from colibri.options import Options
from colibri.paths import data_folder
from colibri.testing import check_package
from colibri.toolchain.build import build

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/boards.md").read_text(encoding="utf-8")
CHECKPOINT = ROOT / "examples/load-moe/top2-e4-norm"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The board of the page as a file."""
    (found,) = re.findall(r"<!-- example -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "stm32f407-discovery.toml"
    path.write_text(found)
    return path


def test_the_tables_are_current() -> None:
    assert keys_text() in PAGE, "run ci/schema"
    assert board_list([load_board(name) for name in board_names()]) in PAGE, "run ci/schema"


def test_every_key_of_the_boards_of_colibri_has_a_row() -> None:
    rows = {key.path for _, part in keys() for key in part}
    for path in data_folder("boards").glob("*.toml"):
        above = ""
        for header, key in re.findall(r"^\[+(\w+)\]+$|^(\w+) =", path.read_text(encoding="utf-8"), re.MULTILINE):
            above = f"{header}." if header else above
            assert not key or above + key in rows, f"{path.name}: {above}{key}"


def test_the_example_is_the_stm32f405_with_less_of_it(example: Path) -> None:
    board, other = load_board(example), load_board("stm32f405")
    assert (board.cpu, board.toolchain) == (other.cpu, other.toolchain)
    assert [(one.name, one.origin, one.length) for one in board.memory] == [
        (one.name, one.origin, one.length) for one in other.memory
    ]
    assert (board.region_for(Holds.CODE).limit, board.reserve, board.stack) == (7 * 128 << 10, 16384, 2048)


@pytest.mark.emulator
def test_the_example_builds_and_answers_every_bit(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    generate(CHECKPOINT, load_board(example), Options(), folder)
    example.unlink()
    assert build(folder)
    report = make_report(folder)
    report.require_fit()
    assert {region.name: (region.limit, region.reserve) for region in report.regions} == {
        "flash": (7 * 128 << 10, 0),
        "sram": (128 << 10, 16384),
        "ccm": (64 << 10, 0),
    }
    (result,) = check_package(folder, check_memory=True)
    assert (result.emulator, result.proves, result.mismatches) == ("netduinoplus2", "map", ())


def test_a_board_beyond_its_budget_exits_with_3(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example.write_text(example.read_text().replace("budget = 0xE_0000", "budget = 0x800"))
    assert main(["build", str(CHECKPOINT), "--board", str(example), "-o", str(tmp_path / "package")]) == 3
    assert re.search(r"stm32f407-discovery: the image is too large: flash by [\d,]+ bytes", capsys.readouterr().err)


def test_a_board_above_its_warning_is_built_all_the_same(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example.write_text(example.read_text().replace("budget = 0xE_0000", "budget = 0xE_0000\nwarn = 0x800"))
    folder = str(tmp_path / "package")
    assert main(["build", str(CHECKPOINT), "--board", str(example), "-o", folder]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"colibri: warning: flash: [\d,]+ bytes, [\d,]+ bytes over the board's limit of 2,048 \(warn\)", line
    )
    assert main(["report", folder]) == 0
    assert capsys.readouterr().err == f"{line}\n"


def test_a_board_may_inherit_from_a_board(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text('inherits = "stm32f405"\nstack = 2048\nemulators = []\n')
    board = load_board(tmp_path / "small.toml")
    assert (board.stack, board.memory, board.emulators) == (2048, load_board("stm32f405").memory, ())
    assert main(["generate", str(CHECKPOINT), "--board", str(tmp_path / "small.toml"), "-o", str(tmp_path / "p")]) == 0
    assert build(tmp_path / "p", ["build/product.elf"])


def test_the_page_names_families_words_and_alignments() -> None:
    families = {path.stem for path in data_folder("boards").glob("_*.toml")}
    assert set(re.findall(r"`(_\w+)`", PAGE)) == families
    assert all(f"| `{word}` |" in PAGE for word in Proves)
    assert f"a multiple of {VECTORS_ALIGN['arm']} on Arm" in PAGE
    assert f"of {VECTORS_ALIGN['riscv32']} on\n  RISC-V" in PAGE
    assert "my-board" not in board_names()


@pytest.mark.emulator
def test_the_way_to_a_board_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command of the page, in its order; what stands below it is what it prints."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"<!-- try -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    (faults,) = re.findall(r"<!-- faults -->\n```console\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "stm32f407-discovery.toml"

    def follow(block: str, code: int = 0) -> None:
        for command, shown in re.findall(r"^\$ colibri (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            assert main(command.split()) == code
            printed = "".join(capsys.readouterr())
            for line in shown.splitlines():
                assert line.removesuffix("…").strip() in printed

    follow(first)
    text = path.read_text()
    wrong = text.replace("0x0800_0000", "X").replace("0x2000_0000", "0x0800_0000").replace("X", "0x2000_0000")
    path.write_text(wrong.replace('"Cortex-M4F"', '"Cortex-M4FP"'))
    follow(faults, code=5)
    path.write_text(text)
    follow(second)
