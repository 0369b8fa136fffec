"""docs/board.schema.json: current, a schema, and of one mind with the loader on every board and on hostile ones."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from colibri.boards.load import board_names, read_board
from colibri.boards.new import new_board
from colibri.boards.schema import schema_json
from colibri.boards.toml_text import assignment
from colibri.cli.boards import command
from colibri.paths import data_folder

SCHEMA = json.loads(schema_json())
FILES = sorted(data_folder("boards").glob("*.toml"))
WHOLE = {
    "title": "x",
    "sources": ["x"],
    "kind": "bare",
    "kernels": ["portable"],
    "port": "cortex_m",
    "stack": 1024,
    "cpu": {"arch": "arm", "core": "Cortex-M3", "fpu": False},
    "toolchain": {"prefix": "arm-none-eabi-", "clang_target": "thumbv7m-none-eabi", "flags": ["-mthumb"], "apt": []},
    "memory": [
        {"name": "flash", "kind": "flash", "origin": 0, "length": 1024, "holds": ["code", "weights"]},
        {"name": "ram", "kind": "ram", "origin": 0x20000000, "length": 4096, "holds": ["data", "stack", "arena"]},
    ],
    "emulators": [],
}


def errors(document: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]


def test_it_is_published_and_is_a_schema() -> None:
    page = Path(__file__).parents[2] / "docs/board.schema.json"
    assert page.read_text(encoding="utf-8") == schema_json(), "run ci/schema"
    assert CliRunner().invoke(command, ["schema"]).output == schema_json()
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", [file for file in FILES if file.stem in board_names()], ids=lambda file: file.stem)
def test_every_board_is_valid(file: Path) -> None:
    assert errors(tomllib.loads(file.read_text(encoding="utf-8"))) == []


def test_every_key_has_words() -> None:
    def walk(table: dict[str, Any]) -> None:
        for name, one in table.get("properties", {}).items():
            if name not in ("cpu", "toolchain", "levels", "memory", "emulators", "flash", "register", "bits"):
                assert one["description"] and one["examples"], name
            walk(one)
            walk(one.get("items", {}))

    walk(SCHEMA)


def test_a_new_board_is_valid(tmp_path: Path) -> None:
    for parent in ("nucleo-h743zi", "x86-64-v3"):
        path = new_board(f"my-{parent}", parent, tmp_path / f"my-{parent}.toml")
        assert errors(tomllib.loads(path.read_text())) == []
        assert json.loads((tmp_path / "board.schema.json").read_text()) == SCHEMA


def test_an_editor_finds_the_schema_by_the_first_line(tmp_path: Path) -> None:
    """Taplo is what Even Better TOML for VS Code has inside."""
    path = new_board("mine", "stm32f405", tmp_path / "mine.toml")
    command = [str(Path(sys.executable).with_name("taplo")), "check", "mine.toml"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    path.write_text(path.read_text().replace('kind = "ram"', 'kind = "rom"'))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and '"rom" is not one of ["flash","ram"]' in done.stderr


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("stak",), 1),
        (("cpu", "cores"), "x"),
        (("memory", 0, "lenght"), 1),
        (("memory", 0, "length"), "8K"),
        (("memory", 0, "length"), -1),
        (("memory", 0, "length"), 1 << 62),
        (("memory", 0, "length"), True),
        (("memory", 0, "kind"), "rom"),
        (("memory", 0, "name"), "a; b"),
        (("memory", 0, "holds"), ["everything"]),
        (("memory", 1, "cost"), 0),
        (("memory", 1, "clock"), {"register": 4}),
        (("memory",), {}),
        (("cpu", "fpu"), 0),
        (("cpu", "arch"), "armm"),
        (("kernels",), ["../portable"]),
        (("port",), "../ports/cortex_m"),
        (("toolchain", "flags"), ["-O2; id"]),
        (("toolchain", "prefix"), "a b"),
        (("title",), None),
        (("cpu", "core"), None),
        (("memory", 0, "length"), None),
        (("emulators",), [{"name": "x", "kind": "vax", "proves": "map"}]),
        (
            ("emulators",),
            [{"name": "../x", "kind": "qemu-user", "proves": "isa", "program": "qemu-arm", "trap": "svc"}],
        ),
    ],
)
def test_what_the_schema_refuses_the_loader_refuses_too(
    path: tuple[str | int, ...], value: object, tmp_path: Path
) -> None:
    assert errors(WHOLE) == [] and read_board(written(WHOLE, tmp_path)).faults == []
    wrong = copy.deepcopy(WHOLE)
    table: Any = wrong
    for part in path[:-1]:
        table = table[part]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    assert errors(wrong)
    assert read_board(written(wrong, tmp_path)).faults


def written(document: dict[str, Any], folder: Path) -> Path:
    """As TOML, tables inline."""
    path = folder / "mine.toml"
    path.write_text("".join(f"{assignment(key, value)}\n" for key, value in document.items()))
    return path
