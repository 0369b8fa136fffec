"""The folder of an export: the same bytes for the same package, whole or not there, never over anybody's files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from exporting import LANGUAGE, SENSOR, everything, make_export
from small_models import HOST_BOARD, PORTABLE_BOARD, make_package

from colibri.boards.profile import BoardKind
from colibri.cli import main
from colibri.cli.export import FORMS as NAMES_ON_THE_COMMAND_LINE
from colibri.errors import BadInput, UsageError
from colibri.export.export import export
from colibri.export.folder import LIST_NAME
from colibri.export.form import Label
from colibri.export.forms import FORMS
from colibri.export.model import read_model

FORM_NAMES = [form.name for form in FORMS if form.name != "page"]  # which needs a tokenizer: see test_npm.py


def board_for(form: str) -> str:
    kinds = next(one for one in FORMS if one.name == form).kinds
    boards = {BoardKind.BARE: PORTABLE_BOARD, BoardKind.LINUX: HOST_BOARD, BoardKind.WASM: "wasm32"}
    return boards[kinds[0]]


def packaged(folder: Path) -> Path:
    make_package(SENSOR, folder / "package", PORTABLE_BOARD)
    return folder / "package"


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
@pytest.mark.parametrize("form", FORM_NAMES)
def test_the_same_bytes_wherever_it_is_made(tmp_path: Path, form: str, source: Path) -> None:
    one = everything(make_export(tmp_path / "one", form, source, board_for(form)))
    two = everything(make_export(tmp_path / "elsewhere/deeper", form, source, board_for(form)))
    assert one == two
    assert not any(str(tmp_path).encode() in content for content in one.values())
    assert {"README.md", "LICENSE", LIST_NAME} <= set(one)


@pytest.mark.parametrize("form", FORM_NAMES)
def test_text_files_are_tidy(tmp_path: Path, form: str) -> None:
    for name, content in everything(make_export(tmp_path, form, board=board_for(form))).items():
        if content and content.isascii() and b"\0" not in content:
            assert content.endswith(b"\n") and not content.endswith(b"\n\n"), name
            lines = content.split(b"\n")
            assert not [line for line in lines if line != line.rstrip() or b"{{" in line or b"{%" in line], name


def test_an_export_is_replaced_by_the_next(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    make_export(tmp_path, "cmake", label=Label(version="2.0.0"))
    assert b"VERSION 2.0.0" in (folder / "CMakeLists.txt").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cmake", "package"]


@pytest.mark.parametrize("what", ["added", "changed", "link", "folder link"])
def test_what_no_export_wrote_is_left_alone(tmp_path: Path, what: str) -> None:
    folder = make_export(tmp_path, "cmake")
    message = r"which no export wrote; move it out, or choose another folder with -o"
    if what == "added":
        (folder / "example/mine.c").write_text("int mine;\n")
        message = "holds 'example/mine.c', " + message
    elif what == "changed":
        (folder / "CMakeLists.txt").write_text("# mine\n")
        message = r"'CMakeLists\.txt' was changed since it was exported"
    elif what == "link":
        (folder / "LICENSE").unlink()
        (folder / "LICENSE").symlink_to(tmp_path / "package/model.h")
    else:
        (folder / "elsewhere").symlink_to(tmp_path / "package")
    before = everything(tmp_path)
    with pytest.raises(BadInput, match=message):
        make_export(tmp_path, "cmake")
    assert everything(tmp_path) == before


def test_another_form_is_not_overwritten(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    with pytest.raises(BadInput, match="holds an export to 'cmake'; choose another folder with -o"):
        export(tmp_path / "package", "pkg-config", Label(), folder)


def test_folders_of_others_and_the_package_itself_are_refused(tmp_path: Path) -> None:
    package = packaged(tmp_path)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.txt").write_text("years of work")
    (tmp_path / "file").write_text("in the way")
    for out in (package, tmp_path / "thesis"):
        with pytest.raises(BadInput, match="exists and is not an export of Colibri"):
            export(package, "cmake", Label(), out)
    with pytest.raises(BadInput, match="exists and is no folder"):
        export(package, "cmake", Label(), tmp_path / "file")
    with pytest.raises(UsageError, match="cannot be made"):
        export(package, "cmake", Label(), tmp_path / "file/below")


@pytest.mark.parametrize(
    "damage",
    ["model.bin", "src/model.c", "runtime/core", "runtime/core/access.h", "test/vectors.msgpack", "package.json"],
)
def test_a_package_with_something_missing(tmp_path: Path, damage: str) -> None:
    package = packaged(tmp_path)
    shutil.rmtree(package / damage) if (package / damage).is_dir() else (package / damage).unlink()
    with pytest.raises(BadInput):
        export(package, "cmake", Label(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_with_something_else(tmp_path: Path) -> None:
    package = packaged(tmp_path)
    (package / "model.bin").write_bytes(b"short")
    with pytest.raises(
        BadInput, match=r"model\.bin: has 5 bytes, package\.json says [\d,]+; generate the package again"
    ):
        read_model(package)
    package = packaged(tmp_path)
    (package / "runtime/core/a b.c").write_text("")
    with pytest.raises(BadInput, match="is no file of Colibri"):
        read_model(package)


@pytest.mark.parametrize(
    ("option", "text"),
    [("version", "1"), ("version", "1.2.3-rc1"), ("version", "01.2.3"), ("version", "1.2.3\n"), ("vendor", ""),
     ("vendor", 'x" y'), ("vendor", "ä"), ("url", "javascript:alert(1)"), ("url", 'https://x/" y'), ("url", "https://")],
)  # fmt: skip
def test_labels_that_fit_into_no_format(option: str, text: str) -> None:
    with pytest.raises(UsageError, match="cannot stand there; for example"):
        Label(**{option: text})


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = packaged(tmp_path)
    assert main(["export", str(package), "--to", "cmake"]) == 0
    assert f"{package}-cmake: " in capsys.readouterr().out
    assert main(["export", str(package), "--to", "cmake", "--json", "-o", str(tmp_path / "other")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["form"] == "cmake" and said["files"] == sorted(set(everything(tmp_path / "other")) - {LIST_NAME})
    assert main(["export", str(package), "--to", "nonsense"]) == 2
    assert "'nonsense' is not one of 'cmake', 'pkg-config', " in capsys.readouterr().err
    assert [form.name for form in FORMS] == list(NAMES_ON_THE_COMMAND_LINE)
    assert main(["export", str(tmp_path), "--to", "cmake"]) == 5


def test_a_form_for_other_boards(tmp_path: Path) -> None:
    make_package(SENSOR, tmp_path / "package", HOST_BOARD)
    with pytest.raises(
        UsageError, match=r"--to zephyr: is for bare boards, this package is for x86-64-v3 \(linux\); .* cmake"
    ):
        export(tmp_path / "package", "zephyr", Label(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_the_vector_asks_and_answers(tmp_path: Path) -> None:
    make_package(SENSOR, tmp_path / "sensor", PORTABLE_BOARD, batch=2)
    make_package(LANGUAGE, tmp_path / "language", PORTABLE_BOARD, context=32)
    model = read_model(tmp_path / "sensor")
    facts = model.package.model
    assert len(model.vector.floats()) == 2 * facts.inputs and len(model.vector.outputs) == 4 * 2 * facts.outputs
    model = read_model(tmp_path / "language")
    assert len(model.vector.words()) == 24 and max(model.vector.words()) < model.package.model.outputs


def test_weights_that_were_cut_do_not_assemble(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    (source,), (weights,) = folder.rglob("*_weights.S"), folder.rglob("*_model.bin")
    command = ["gcc", "-c", str(source), "-I", str(weights.parent), "-o", str(tmp_path / "weights.o")]
    subprocess.run(command, check=True)
    size = weights.stat().st_size
    os.truncate(weights, size - 1)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{weights.name} has not the {size:,} bytes that it was generated with" in done.stderr
