"""`colibri matrix` as it is used: cells side by side, made once, failing alone."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from small_models import make_package, sensor

from colibri.cli import main
from colibri.errors import BadInput, BuildFailed, UsageError
from colibri.graph.scheme import Scheme
from colibri.matrix.model import Cell, State, nothing
from colibri.matrix.run import _ninja_text, plan, run_matrix

MODEL = str(sensor("top1-e3-tiny"))


@pytest.fixture
def boards(tmp_path: Path) -> list[str]:
    """One that is here, one that is too small, one whose compiler is nowhere."""
    (tmp_path / "small.toml").write_text(
        'inherits = "stm32f405"\n[[memory]]\nname = "flash"\nkind = "flash"\norigin = 0x0800_0000\nlength = 0x1000\n'
        'holds = ["code", "weights"]\n[[memory]]\nname = "sram"\nkind = "ram"\norigin = 0x2000_0000\nlength = 0x8000\n'
        'holds = ["data", "stack", "arena"]\n[[emulators]]\nname = "netduinoplus2"\nkind = "qemu-system"\n'
        'program = "qemu-system-arm"\nargs = ["-M", "netduinoplus2"]\nproves = "map"\ntrap = "bkpt"\n'
    )
    (tmp_path / "none.toml").write_text('inherits = "stm32f405"\n[toolchain]\nprefix = "nowhere-"\napt = []\n')
    return ["stm32f405", str(tmp_path / "small.toml"), str(tmp_path / "none.toml")]


@pytest.mark.emulator
def test_a_matrix(boards: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    given = [word for board in boards for word in ("--board", board)]
    files = ["--junit", str(tmp_path / "junit.xml"), "--markdown", str(tmp_path / "matrix.md")]
    assert main(["matrix", MODEL, *given, "-o", str(out), "--json", *files]) == 4
    printed, said = capsys.readouterr()
    assert said.startswith("colibri: matrix: 2 of 3 cells are not fine; the worst is top1-e3-tiny, w8a8, on none")
    good, small, none = json.loads(printed)["cells"]
    assert [cell["code"] for cell in (good, small, none)] == [0, 3, 4]
    assert (good["fits"], small["fits"], none["fits"]) == (True, False, None)
    assert small["over"]["flash"] > 0 and small["runs"] == [] and "nowhere-gcc: not installed" in none["error"]
    (run,) = good["runs"]
    assert (run["state"], run["emulator"], len(run["digest"])) == ("equal", "netduinoplus2", 64)
    assert run["instructions"] > 1000 and good["stack"] > 0
    report = json.loads(_report(out, good, capsys))
    assert good["flash"] == sum(region["used"] for region in report["regions"] if region["kind"] == "flash")
    assert good["ram"] == sum(region["used"] for region in report["regions"] if region["kind"] == "ram")
    assert len(ET.parse(tmp_path / "junit.xml").findall(".//testcase")) == 3
    assert "| stm32f405 | gcc | yes | yes | netduinoplus2 (map) | yes |" in (tmp_path / "matrix.md").read_text()

    # Again: only what went wrong is tried again, and what does not fit is known.
    seen: list[str] = []
    cells = plan([Path(MODEL)], boards, ["w8a8"])
    again = run_matrix(cells, out, on_result=lambda done, total, result: seen.append(f"{done}/{total} {result.board}"))
    assert seen == ["1/1 none"]
    assert json.loads(again.to_json())["cells"][:2] == [good, small]

    # A change of a board is a change of its cell.
    path = Path(boards[1])
    path.write_text(path.read_text().replace("0x1000\n", "0x2_0000\n"))
    seen.clear()
    changed = run_matrix(cells[:2], out, on_result=lambda done, total, result: seen.append(result.board))
    assert seen == ["small"] and changed.code == 0
    assert changed.cells[1].runs[0].digest == good["runs"][0]["digest"]


def _report(out: Path, cell: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["report", str(out / cell["package"]), "--json"]) == 0
    return capsys.readouterr().out


def test_a_cell_that_dies_has_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    cell = Cell(MODEL, "stm32f405", "w8a8")
    for _ in range(2):  # also where a result is there of an earlier run
        (result,) = run_matrix([cell], tmp_path / "out").cells
        assert (result.code, result.error, result.board) == (70, "the cell ended without a result", "stm32f405")
        (tmp_path / "out" / cell.name / "result.json").write_bytes(msgspec.json.encode(nothing(cell, "x", 0, "")))


def test_a_checkpoint_that_vanishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colibri.matrix.run._inputs", lambda checkpoint: "/nowhere/model.safetensors")
    with pytest.raises(BuildFailed, match=r"matrix.ninja: ninja: error: '/nowhere/model.safetensors', needed by"):
        run_matrix([Cell(MODEL, "stm32f405", "w8a8")], tmp_path / "out")


def test_a_missing_emulator_leaves_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the host's compiler and what ninja needs are here; a native run needs no emulator."""
    import shutil

    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name in ("gcc", "ar", "objcopy", "objdump", "size", "as", "ld", "sh", "rm", "cat"):
        if (found := shutil.which(name)) is not None:
            (bin_folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(bin_folder))
    (result,) = run_matrix([Cell(MODEL, "x86-64-v3", "w8a8")], tmp_path / "out").cells
    states = {run.emulator: run.state for run in result.runs}
    assert (states["qemu-x86_64"], result.code, result.fits) == (State.MISSING, 4, True)
    assert "qemu-x86_64: not installed" in result.error


@pytest.mark.parametrize(
    ("boards", "names"),
    [
        (["stm32*"], {"stm32f405", "stm32h750b-dk"}),
        (["stm32f405", "stm32f4*", "stm32f405"], {"stm32f405"}),
        (["all"], {"stm32f405", "x86-64-v3", "nucleo-h743zi"}),
    ],
)
def test_patterns_of_boards(boards: list[str], names: set[str]) -> None:
    found = [cell.board for cell in plan([Path(MODEL)], boards, ["w8a8"])]
    assert names <= set(found) and len(found) == len(set(found))


@pytest.mark.emulator
def test_two_toolchains_give_the_same_bits(tmp_path: Path) -> None:
    matrix = run_matrix(plan([Path(MODEL)], ["kendryte-k210"], ["w8a8"], ["gcc", "clang"]), tmp_path / "out")
    assert [(cell.toolchain, cell.fits, cell.code) for cell in matrix.cells] == [("gcc", True, 0), ("clang", True, 0)]
    assert len({run.digest for cell in matrix.cells for run in cell.runs}) == 1
    assert matrix.totals() == "2 cells: 2 built, 2 fit, 2 ran, all to the same bits"


def test_every_checkpoint_with_every_recipe() -> None:
    cells = plan([Path(MODEL), sensor("top1-e4"), Path(MODEL)], ["stm32f405"], ["w8a8", "w4a8", "w8a8:kv=f32"])
    assert [(Path(cell.checkpoint).name, cell.recipe) for cell in cells] == [
        ("top1-e3-tiny", "w8a8"), ("top1-e3-tiny", "w4a8"), ("top1-e4", "w8a8"), ("top1-e4", "w4a8"),
    ]  # fmt: skip


def test_a_recipe_in_a_file_is_read_from_it_in_each_cell(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        make_package(Path(MODEL), tmp_path / name, scheme=Scheme.W4A8)
        files.append(str(tmp_path / name / "recipe.json"))
    cells = plan([Path(MODEL)], ["stm32f405"], ["w4a8", *files])
    assert [(cell.recipe, cell.recipe_file) for cell in cells] == [
        ("w4a8", ""),
        (f"w4a8 ({files[0]})", files[0]),
        (f"w4a8 ({files[1]})", files[1]),
    ]
    assert len({cell.name for cell in cells}) == 3
    (single,) = plan([Path(MODEL)], ["stm32f405"], files[:1])
    assert (single.recipe, single.recipe_file) == ("w4a8", files[0])
    assert files[0] in _ninja_text([single], 1.0)


def test_calibration_data_is_found_from_the_folder_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.npy").touch()
    (cell,) = plan([Path(MODEL)], ["stm32f405"], ["w4a8:calibrate=data.npy"])
    assert cell.recipe == f"w4a8:calibrate={tmp_path / 'data.npy'}"
    assert str(tmp_path / "data.npy") in _ninja_text([cell], 1.0)


@pytest.mark.parametrize(
    ("checkpoint", "board", "recipe", "error", "message"),
    [
        ("/nowhere", "stm32f405", "w8a8", BadInput, "/nowhere: no such checkpoint"),
        (MODEL, "stm32f407", "w8a8", BadInput, "no board 'stm32f407'; did you mean 'stm32f405'?"),
        (MODEL, "nothing*", "w8a8", BadInput, "no board 'nothing*'"),
        (MODEL, "/nowhere.toml", "w8a8", BadInput, "/nowhere.toml: no such file"),
        (MODEL, "stm32f405", "w8a9", UsageError, "scheme 'w8a9': is none"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_built(
    checkpoint: str, board: str, recipe: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        plan([Path(checkpoint)], [board], [recipe])
    assert message in str(caught.value)


def test_one_matrix_at_a_time_in_a_folder(tmp_path: Path) -> None:
    from colibri.claim import claimed

    with claimed(tmp_path), pytest.raises(UsageError, match="another colibri is building in it"):
        run_matrix([Cell(MODEL, "stm32f405", "w8a8")], tmp_path)


def test_odd_paths(tmp_path: Path) -> None:
    """Blanks, dollars and colons are names of folders like others."""
    odd = tmp_path / "a b $x: 'q"
    odd.mkdir()
    (odd / "model").symlink_to(MODEL)
    cells = plan([odd / "model"], ["x86-64-v3"], ["w8a8"])
    assert cells[0].checkpoint == os.path.realpath(MODEL)
    copy = odd / "copy it"
    copy.mkdir()
    for path in Path(MODEL).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (result,) = run_matrix(plan([copy], ["x86-64-v3"], ["w8a8"]), odd / "out").cells
    assert (result.fits, result.checkpoint) == (True, "copy it")


def test_namesakes_have_folders_and_names_of_their_own(tmp_path: Path) -> None:
    folders = [tmp_path / parent / "model" for parent in ("a", "b")]
    for folder, name in zip(folders, ("top1-e3-tiny", "top1-e4"), strict=True):
        shutil.copytree(sensor(name), folder)
    cells = plan([*folders, sensor("top1-e4")], ["x86-64-v3"], ["w8a8"])
    assert len({cell.name for cell in cells}) == 3 and cells[2].name == "top1-e4--x86-64-v3--w8a8"
    matrix = run_matrix(cells, tmp_path / "out")
    assert [(cell.checkpoint, cell.code) for cell in matrix.cells] == [("a/model", 0), ("b/model", 0), ("top1-e4", 0)]
    digests = [cell.runs[0].digest for cell in matrix.cells]
    assert digests[0] != digests[1] == digests[2]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff" * 40, b"[]"])
def test_a_damaged_result_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")  # a cell that would leave no result
    cell = Cell(MODEL, "stm32f405", "w8a8")
    result = tmp_path / "out" / cell.name / "result.json"
    run_matrix([cell], tmp_path / "out")
    result.write_bytes(damage)
    seen: list[str] = []
    run_matrix([cell], tmp_path / "out", on_result=lambda done, total, made: seen.append(made.board))
    assert seen == ["stm32f405"] and not result.exists()


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_files_that_cannot_be_written_are_refused_first(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["matrix", MODEL, "--board", "x86-64-v3", "-o", str(tmp_path / "out")]
    for path, words in ((tmp_path, "is a folder; name a file"), (tmp_path / "no" / "x", "there is no such folder")):
        assert main([*arguments, option, str(path)]) == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_boards_of_one_name_have_labels_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / parent / "stm32f205.toml" for parent in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text('inherits = "nucleo-f446re"\n')
    cells = plan([Path(MODEL)], ["stm32f205", *map(str, paths), "stm32f405"], ["w8a8"])
    labels = [nothing(cell, "", 0, "").board for cell in cells]
    assert labels == ["stm32f205", "a/stm32f205", "b/stm32f205", "stm32f405"]
    assert len({cell.name for cell in cells}) == 4
    (alone,) = plan([Path(MODEL)], [str(paths[0])], ["w8a8"])
    assert nothing(alone, "", 0, "").board == "stm32f205"
