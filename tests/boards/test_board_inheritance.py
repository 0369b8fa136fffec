"""A board file inherits from another, and a mistake is told of the file that has it."""

from __future__ import annotations

from pathlib import Path

from board_files import GOOD, error_of, write

from colibri.boards.load import load_board


def test_the_line_is_of_the_file_whose_value_holds(tmp_path: Path) -> None:
    """A list of one's own hides the inherited one, also where an element of it lacks a key that the other has."""
    write(tmp_path, GOOD, "_base.toml")
    own = '[[memory]]\nname = "sram"\nkind = "ram"\n'
    path = write(tmp_path, f'inherits = "_base"\n{own}')
    assert error_of(path) == "mine.toml:2: memory[0]: length is missing"
    assert error_of(write(tmp_path, 'inherits = "_base"\nstack = 8192\n')).startswith("mine.toml:2: stack: 8192 bytes")
    assert error_of(write(tmp_path, 'inherits = "_base"\n[toolchain]\nprefix = "a b"\n')).startswith("mine.toml:3: ")
    assert error_of(write(tmp_path, 'inherits = "_base"\n[cpu]\ncore = "Cortex-M4"\n')).startswith("_base.toml:16: ")


def test_tables_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "_base.toml")
    derived = (
        'inherits = "_base"\ntitle = "Derived"\n[cpu]\ncore = "Cortex-M4"\n[toolchain]\nflags = ["-mcpu=cortex-m4"]\n'
    )
    board = load_board(write(tmp_path, derived))
    base = load_board(write(tmp_path, GOOD, "base.toml"))
    assert (board.title, board.cpu.core, board.cpu.arch) == ("Derived", "Cortex-M4", "arm")
    assert board.toolchain.flags == ("-mcpu=cortex-m4",)
    assert board.toolchain.prefix == base.toolchain.prefix
    assert board.memory == base.memory


def test_a_board_of_ones_own_inherits_from_a_family_of_colibri(tmp_path: Path) -> None:
    text = GOOD.replace('kind = "bare"', 'inherits = "_cortex_m"', 1).replace('arch = "arm"\n', "")
    text = text.replace('port = "cortex_m"\n', "")
    board = load_board(write(tmp_path, text))
    assert (board.kind, board.port, board.cpu.arch) == ("bare", "cortex_m", "arm")


def test_a_mistake_in_the_base_is_reported_there(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("stack", "stacks"), "_base.toml")
    derived = write(tmp_path, 'inherits = "_base"\n')
    assert error_of(derived).startswith("_base.toml:6: stacks: unknown key")
    write(tmp_path, GOOD.replace("0x2000\n", "true\n"), "_base.toml")
    assert error_of(derived) == "_base.toml:30: memory[1].length: expected integer, got boolean"


def test_a_circle_of_two(tmp_path: Path) -> None:
    write(tmp_path, 'inherits = "b"\n', "a.toml")
    write(tmp_path, 'inherits = "a"\n', "b.toml")
    assert error_of(tmp_path / "a.toml") == "b.toml:1: inherits: inherits in a circle: 'a' comes back to itself"
