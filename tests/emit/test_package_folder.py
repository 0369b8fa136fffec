"""The folder of a package: whole or not there, the same wherever it is made, never over someone else's files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from selection import TELLING
from small_models import ORACLE, make_package, sensor, write_sensor

from colibri.boards.load import load_board
from colibri.claim import claimed, put_in_place
from colibri.emit import writer
from colibri.emit.package_text import summary_line
from colibri.errors import BadInput, UsageError
from colibri.generate import generate
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import load_package

MODEL = sensor("top1-e3-tiny")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("board", TELLING)
@pytest.mark.parametrize("source", [MODEL, ORACLE / "mixtral-base"], ids=lambda path: path.name)
def test_two_folders_are_byte_identical(tmp_path: Path, source: Path, board: str) -> None:
    context = 12 if source != MODEL else None
    options = Options(scheme=Scheme.W4A8, context=context)
    for place in ("one", "elsewhere/deeper/two"):
        generate(source, load_board(board), options, tmp_path / place)
    one, two = tree(tmp_path / "one"), tree(tmp_path / "elsewhere/deeper/two")
    assert list(one) == list(two)
    assert [name for name in one if one[name] != two[name]] == []
    assert {"model.h", "model.bin", "src/model.c", "build.ninja", "CMakeLists.txt", "README.md"} <= set(one)


def test_the_same_checkpoint_in_another_folder_differs_in_nothing(tmp_path: Path) -> None:
    made = []
    for place in ("a", "b"):
        source = write_sensor(tmp_path / place / "model")
        make_package(source, tmp_path / place / "out")
        made.append(tree(tmp_path / place / "out"))
    assert made[0] == made[1]


def test_the_clock_and_the_umask_leave_no_trace(tmp_path: Path) -> None:
    make_package(MODEL, tmp_path / "one")
    old = os.umask(0o077)
    try:
        make_package(MODEL, tmp_path / "two")
    finally:
        os.umask(old)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_nothing_is_left_beside_the_package(tmp_path: Path) -> None:
    make_package(MODEL, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert load_package(tmp_path / "out").name == "top1-e3-tiny"


def test_an_older_package_is_replaced_as_a_whole(tmp_path: Path) -> None:
    make_package(MODEL, tmp_path / "out", batch=4)
    (tmp_path / "out" / "src" / "stale.c").write_text("from before")
    make_package(MODEL, tmp_path / "out")
    make_package(MODEL, tmp_path / "fresh")
    assert tree(tmp_path / "out") == tree(tmp_path / "fresh")


def test_somebody_elses_files_are_never_taken_along(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    make_package(MODEL, folder)
    (folder / "mymain.c").write_text("int main(void) { return 0; }\n")
    with pytest.raises(BadInput, match=r"holds 'mymain\.c', which Colibri did not write; move it out"):
        make_package(MODEL, folder)
    assert (folder / "mymain.c").is_file()
    assert (folder / "model.h").is_file()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    make_package(MODEL, tmp_path / "out")
    assert (tmp_path / "out" / "package.json").is_file()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_package_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "thesis"
    if kind == "folder":
        out.mkdir()
        (out / "chapter.txt").write_text("years of work")
    else:
        out.write_text("years of work")
    before = everything(tmp_path)
    with pytest.raises(BadInput) as caught:
        make_package(MODEL, out)
    assert str(caught.value) == f"{out}: exists and is not a Colibri package; choose another with -o"
    assert everything(tmp_path) == before
    assert "years of work" in (out if kind == "file" else out / "chapter.txt").read_text()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for out in ("link", "link/deeper"):
        with pytest.raises(UsageError, match=r"link: is a link to nothing; make the folder that it is to point to"):
            make_package(MODEL, tmp_path / out)
    assert everything(tmp_path) == ["link"]
    (tmp_path / "real").mkdir()
    for batch in (1, 2):
        make_package(MODEL, tmp_path / "link", batch=batch)
        assert (tmp_path / "link").is_symlink() and load_package(tmp_path / "real").batch == batch


@pytest.mark.parametrize("out", ["file/out", "file/deeper/out", "/proc/nowhere/out"])
def test_where_no_folder_can_be_made(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError) as caught:
        make_package(MODEL, tmp_path / out)
    assert "cannot be made" in str(caught.value) and "\n" not in str(caught.value)
    assert everything(tmp_path) == ["file"]


@pytest.mark.parametrize("out", ["n" * 300, f"{'n' * 300}/out", "loop", "loop/out"])
def test_names_that_the_system_refuses(tmp_path: Path, out: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError) as caught:
        make_package(MODEL, tmp_path / out)
    text = str(caught.value)
    assert "cannot be made: " in text and text.endswith("; choose another with -o") and len(text) < 700
    assert everything(tmp_path) == ["loop"]


def test_the_longest_name_that_there_is(tmp_path: Path) -> None:
    for _ in range(2):
        make_package(MODEL, tmp_path / ("n" * 255))
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


def test_an_old_package_that_cannot_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package(MODEL, tmp_path / "out")
    before = tree(tmp_path / "out")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("/src"))
    with pytest.raises(UsageError, match=r"the package in it is write-protected: .*/out/src; choose another with -o"):
        make_package(MODEL, tmp_path / "out", batch=2)
    assert tree(tmp_path / "out") == before and [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_an_interrupt_while_packages_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Whichever of the steps is the last that is done, one whole package is there and nothing beside it."""
    old, new = tmp_path / "package", tmp_path / ".new"
    for folder in (old, new):
        folder.mkdir()
        (folder / folder.name).touch()
    steps = []

    def interrupted(path: Path, target: Path) -> None:
        rename(path, target)
        steps.append(target)
        if len(steps) == last:
            raise KeyboardInterrupt

    def remove(path: Path, **options: bool) -> None:
        if last == 3 and not options:
            raise KeyboardInterrupt
        remove_tree(path, **options)

    rename, remove_tree = Path.rename, shutil.rmtree
    monkeypatch.setattr(Path, "rename", interrupted)
    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt):
        put_in_place(new, old)
    assert [path.name for path in old.iterdir()] == ["package" if last == 1 else ".new"]
    assert {path.name for path in tmp_path.iterdir()} - {".new"} == {"package"}


def test_while_another_command_builds_in_it(tmp_path: Path) -> None:
    make_package(MODEL, tmp_path / "out")
    before = tree(tmp_path / "out")
    with claimed(tmp_path / "out"), pytest.raises(UsageError, match="another colibri is building in it; wait for it"):
        make_package(MODEL, tmp_path / "out", batch=2)
    assert tree(tmp_path / "out") == before and [path.name for path in tmp_path.iterdir()] == ["out"]
    make_package(MODEL, tmp_path / "out", batch=2)
    assert load_package(tmp_path / "out").batch == 2


def test_builds_at_once_make_one_package(tmp_path: Path) -> None:
    """Each either makes the whole package or says that it did not; what stays is that of one of them."""
    command = [
        sys.executable,
        "-m",
        "colibri",
        "build",
        str(MODEL),
        "--board",
        "x86-64-v3",
        "-o",
        str(tmp_path / "out"),
    ]
    running = [
        subprocess.Popen([*command, "--batch", str(batch)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for batch in (1, 2, 3)
    ]
    ends = [(process.communicate()[1].decode(), process.returncode) for process in running]
    assert {code for _, code in ends} <= {0, 2} and 0 in {code for _, code in ends}
    assert all(err.count("\n") == (1 if code else 0) for err, code in ends)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    made = [batch for batch, (_, code) in zip((1, 2, 3), ends, strict=True) if code == 0]
    assert load_package(tmp_path / "out").batch in made


@pytest.mark.parametrize("stage", ["render", "write_build_files", "_copy_port"])
def test_a_failure_leaves_no_half_written_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    make_package(MODEL, tmp_path / "old")
    before = tree(tmp_path / "old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, stage, fail)
    for name in ("old", "new"):
        with pytest.raises(UsageError, match="No space left on device; make room"):
            make_package(MODEL, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert tree(tmp_path / "old") == before


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (MODEL, {"prefill": 2}, "--prefill: is for token models; a sensor model has --batch"),
        (ORACLE / "mixtral-base", {"batch": 2}, "--batch: is for sensor models; a token model has --prefill"),
        (ORACLE / "mixtral-base", {"prefill": 9, "context": 8}, "--prefill: 9 is more than the context of 8"),
        (MODEL, {"prefix": "9"}, "--prefix: '9' cannot begin C names"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, source: Path, options: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_package(source, tmp_path / "out", **options)
    assert str(caught.value).startswith(message)
    assert everything(tmp_path) == []


def test_the_recipe_names_every_decision(tmp_path: Path) -> None:
    make_package(
        ORACLE / "mixtral-base", tmp_path / "out", scheme=Scheme.W4A8, context=16, drop={1: {3}}, keep={0: {0, 1}}
    )
    assert json.loads((tmp_path / "out" / "recipe.json").read_text()) == {
        "schema": 3,
        "checkpoint": "9614b843ef919b8400f8fdcd3f68e354be712c9774d5d9d0aa7d68fed77e9d5a",
        "scheme": "w4a8",
        "kv": "f32",
        "context": 16,
        "dropped_experts": {"0": [2, 3, 4, 5, 6, 7], "1": [3]},
    }


def test_package_json_and_the_model_agree(tmp_path: Path) -> None:
    package = make_package(ORACLE / "mixtral-base", tmp_path / "out", context=16, prefill=2, drop={1: {3}})
    assert load_package(tmp_path / "out") == package
    assert package.model.experts == (8, 7) and package.context == 16 and package.prefill == 2
    assert package.model_bin_bytes == (tmp_path / "out" / "model.bin").stat().st_size
    last = max(package.sections, key=lambda section: section.offset)
    assert last.offset + last.bytes <= package.model_bin_bytes < last.offset + last.bytes + 16


@pytest.mark.parametrize("source", [MODEL, ORACLE / "mixtral-base"], ids=lambda path: path.name)
def test_no_file_points_to_a_page_that_is_not_there(tmp_path: Path, source: Path) -> None:
    make_package(source, tmp_path / "out", **({} if source == MODEL else {"context": 12}))
    files = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    names = {path.name for path in files}
    for path in files - {tmp_path / "out/runtime/LICENSE"}:
        if path.suffix in (".c", ".h", ".S", ".md", ".txt", ".ninja", ".cmake"):
            pages = re.findall(r"[\w./]*\w\.md\b", path.read_text(encoding="utf-8"))
            assert [page for page in pages if page.rpartition("/")[2] not in names] == [], path


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (MODEL, "1,169 parameters, 1 layer of 3 experts, top 1; 13 inputs, 2 outputs, batch 1."),
        (ORACLE / "variants/llama-biases", " parameters, 2 layers of one MLP; vocabulary 40, "),
        (
            ORACLE / "switch-base",
            " parameters, 4 layers of 1 to 4 experts, top 1; vocabulary 160, source 8, ",
        ),
    ],
    ids=["sensor", "dense", "encoder"],
)
def test_the_model_in_a_few_words(source: Path, words: str, tmp_path: Path) -> None:
    package = generate(source, load_board("stm32f405"), Options(context=None if source == MODEL else 8), tmp_path / "p")
    assert words in summary_line(package)
