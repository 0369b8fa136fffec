"""Objects that packages lend to each other are those that they would have made themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

from board_packages import EXAMPLES
from shared_objects import SharedObjects

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.options import Options
from colibri.toolchain.build import build, ninja_program

BOARD, TARGET = load_board("stm32f405"), "build/product.elf"
COMPILED = {"src/model.c", "src/model_bin.S", "app/product.c"}


def made(folder: Path, checkpoint: str) -> Path:
    generate(EXAMPLES / checkpoint, BOARD, Options(), folder)
    return folder


def lender(tmp_path: Path) -> SharedObjects:
    store = tmp_path / "store"
    store.mkdir()
    objects = SharedObjects(store)
    first = made(tmp_path / "first", "load-moe/top1-e4")
    objects.lend(first)  # there is nothing yet
    objects.keep(first)
    assert list(store.iterdir()) == []
    build(first, [TARGET])
    objects.keep(first)
    return objects


def to_compile(folder: Path) -> set[str]:
    command = [ninja_program(), "-C", str(folder), "-n", "-v", TARGET]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[words.index("-c") + 1] for line in lines if "-c" in (words := line.split())}


def test_only_what_is_the_models_own_is_compiled_and_the_image_is_the_same(tmp_path: Path) -> None:
    alone, lent = (made(tmp_path / name, "load-moe/top1-e3-tiny") for name in ("alone", "lent"))
    lender(tmp_path).lend(lent)
    assert to_compile(lent) == COMPILED
    assert len(to_compile(alone)) > len(COMPILED) + 4
    for folder in (alone, lent):
        build(folder, [TARGET])
    assert (lent / TARGET).read_bytes() == (alone / TARGET).read_bytes()
    listed = [{path.relative_to(one) for path in one.rglob("*.ci")} for one in (alone, lent)]
    assert listed[0] == listed[1]


def test_what_a_test_changes_is_compiled(tmp_path: Path) -> None:
    objects = lender(tmp_path)
    for path in ("port/port.h", "runtime/core/status.c", "build.ninja"):
        for when in ("before", "after"):
            folder = made(tmp_path / f"{when}-{Path(path).name}", "load-moe/top1-e3-tiny")
            if when == "after":
                objects.lend(folder)
            text = (folder / path).read_text()
            (folder / path).write_text(text.replace("-O2", "-Os") if path == "build.ninja" else f"{text}\n")
            if when == "before":
                objects.lend(folder)
            again = to_compile(folder)
            assert again > COMPILED
            assert ("port/fault.c" in again) == (path != "runtime/core/status.c")
            assert ("runtime/core/status.c" in again) == (path != "port/port.h")
