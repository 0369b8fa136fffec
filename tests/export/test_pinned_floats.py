"""The bits survive options that are not ours; where they would not, the check of the example says why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, SENSOR, compile_for_board, make_export, run_on_board, sources_in, succeed
from small_models import HOST_BOARD

PRAGMA = '#pragma GCC optimize("-ffp-contract=off")'


def run_with(tmp_path: Path, folder: Path, *options: str) -> str:
    includes = [f"-I{folder / name}" for name in ("include", "src", "example")]
    out = tmp_path / "objects"
    out.mkdir(exist_ok=True)
    flags = ["-std=gnu11", *options, *includes, f"-I{DEVICE}"]
    return run_on_board(
        tmp_path / "package", compile_for_board(tmp_path / "package", sources_in(folder), flags, out), out
    )


@pytest.mark.parametrize("options", [("-Os",), ("-O3",), ("-O2", "-ffp-contract=fast")], ids=" ".join)
def test_the_files_pin_themselves(tmp_path: Path, options: tuple[str, ...]) -> None:
    folder = make_export(tmp_path, "cmake")
    assert EQUAL in run_with(tmp_path, folder, *options)
    assert "vfma" not in succeed("arm-none-eabi-objdump", "-d", *(tmp_path / "objects").glob("*_model.o"))


def test_without_the_pragma_the_check_says_what_is_wrong(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    for source in folder.rglob("*.c"):
        source.write_text(source.read_text().replace(PRAGMA, ""))
    assert run_with(tmp_path, folder, "-O2") == "a * b + c is fused: compile with -ffp-contract=off\n"
    assert "vfma" in succeed("arm-none-eabi-objdump", "-d", *(tmp_path / "objects").glob("*_model.o"))


def test_with_the_pragma_the_code_is_that_of_the_option(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake")
    (source,) = (folder / "src").glob("*_model.c")
    plain = source.with_name("plain.c")
    plain.write_text(source.read_text().replace(PRAGMA, ""))
    includes = ["-std=gnu11", "-O2", "-fno-math-errno", f"-I{folder / 'include'}", f"-I{folder / 'src'}"]
    for name, one, option in (("a", source, "-ffp-contract=fast"), ("b", plain, "-ffp-contract=off")):
        (tmp_path / name).mkdir()
        (compiled,) = compile_for_board(tmp_path / "package", [one], [*includes, option], tmp_path / name)
        succeed("arm-none-eabi-objcopy", "-O", "binary", "--only-section=.text", compiled, tmp_path / name / "text")
    assert (tmp_path / "a/text").read_bytes() == (tmp_path / "b/text").read_bytes() != b""


def test_fast_math_is_an_error(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "cmake", SENSOR, HOST_BOARD)
    (source,) = (folder / "src").glob("*_model.c")
    command = [
        "gcc",
        "-Ofast",
        "-mavx2",
        f"-I{folder / 'include'}",
        f"-I{folder / 'src'}",
        "-c",
        source,
        "-o",
        "/dev/null",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "compile without -ffast-math" in done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("example/top1_e3_tiny_check.h", "return digest == 0x", "return digest == 1 + 0x", "the outputs differ from"),
        ("src/top1_e3_tiny_weights.S", '"top1_e3_tiny_model.bin"', '"damaged.bin"', "a checksum of the model is wrong"),
    ],
)
def test_the_check_can_fail(tmp_path: Path, file: str, old: str, new: str, said: str) -> None:
    folder = make_export(tmp_path, "cmake")
    weights = bytearray((folder / "src/top1_e3_tiny_model.bin").read_bytes())
    weights[len(weights) // 2] ^= 1
    (folder / "src/damaged.bin").write_bytes(weights)
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(old, new))
    assert old in text
    assert said in run_with(tmp_path, folder, "-O2")
