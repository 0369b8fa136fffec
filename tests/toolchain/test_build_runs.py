"""What `build` says when a build does not succeed."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import msgspec
import pytest
from small_package import write_small

from colibri.boards.load import load_board
from colibri.boards.profile import Board
from colibri.errors import BuildFailed, DoesNotFit, ToolMissing
from colibri.toolchain.build import build, ninja_program
from colibri.toolchain.buildfiles import product_targets

DECLARED = "float missing(float x);\nfloat t"


def with_lengths(name: str, **lengths: int) -> Board:
    board = load_board(name)
    memory = tuple(
        msgspec.structs.replace(region, length=lengths.get(region.name, region.length)) for region in board.memory
    )
    return msgspec.structs.replace(board, memory=memory)


def test_a_compiler_error_is_quoted(tmp_path: Path) -> None:
    write_small(tmp_path, "stm32f405")
    (tmp_path / "src/model.c").write_text("int tiny_forward(void) { int unused; return wrong; }\n")
    with pytest.raises(BuildFailed) as caught:
        build(tmp_path)
    assert caught.value.exit_code == 6
    assert "src/model.c:1:45: error: " in str(caught.value)
    assert "wrong" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    write_small(tmp_path, "riscv-virt-rv32imac")
    source = tmp_path / "runtime/core/scale.c"
    source.write_text(source.read_text().replace("x * 51.0f", "(int)(x * 51.0f) * 1LL"))
    with pytest.raises(BuildFailed, match="Werror"):
        build(tmp_path)


@pytest.mark.parametrize("name", ["stm32f405", "x86-64-v3"])
def test_a_missing_function_is_a_linker_error(name: str, tmp_path: Path) -> None:
    write_small(tmp_path, name)
    source = tmp_path / "src/model.c"
    source.write_text(source.read_text().replace("scale(x)", "scale(x) + missing(x)").replace("float t", DECLARED, 1))
    with pytest.raises(BuildFailed, match="undefined reference to `missing'"):
        build(tmp_path)


def test_a_bare_image_has_no_libc(tmp_path: Path) -> None:
    write_small(tmp_path, "stm32f405")
    source = tmp_path / "app/product.c"
    source.write_text(source.read_text().replace("int main", "void *malloc(size_t n);\nint main").replace(
        "return output", "if (malloc(4)) return 0;\n    return output"))  # fmt: skip
    with pytest.raises(BuildFailed, match="undefined reference to `malloc'"):
        build(tmp_path, ["build/product.elf"])


@pytest.mark.parametrize(("name", "region"), [("stm32f405", "flash"), ("riscv-virt-rv32imac", "ram")])
def test_too_large_is_linked_all_the_same(name: str, region: str, tmp_path: Path) -> None:
    board = write_small(tmp_path, name)
    assert build(tmp_path, product_targets(board, board.toolchain.family)) is True
    write_small(tmp_path, with_lengths(name, **{region: 512}))
    assert build(tmp_path, product_targets(board, board.toolchain.family)) is False
    assert not (tmp_path / "build/product.elf").exists()
    for suffix in ("elf", "map", "usage"):
        assert (tmp_path / f"build/oversize.{suffix}").stat().st_size
    write_small(tmp_path, board)
    assert build(tmp_path, product_targets(board, board.toolchain.family)) is True
    assert not (tmp_path / "build/oversize.elf").exists()


def test_only_the_test_is_too_large(tmp_path: Path) -> None:
    write_small(tmp_path, "stm32f405")
    source = tmp_path / "app/test.c"
    source.write_text(source.read_text().replace("static volatile", "char more[200000];\nstatic volatile").replace(
        "return output", "for (int i = 0; i < 200000; i++) more[i] = (char)output;\n    return output"))  # fmt: skip
    with pytest.raises(
        DoesNotFit, match=r"build/test(-netduinoplus2)?\.elf: does not fit: sram by [\d,]+ bytes"
    ) as caught:
        build(tmp_path)
    assert caught.value.exit_code == 3
    assert (tmp_path / "build/product.elf").is_file()


def test_a_missing_compiler_is_named(tmp_path: Path) -> None:
    write_small(tmp_path, "stm32f405")
    ninja = tmp_path / "build.ninja"
    ninja.write_text(ninja.read_text().replace("cc = arm-none-eabi-gcc", "cc = no-such-gcc"))
    with pytest.raises(BuildFailed, match="no-such-gcc: not found"):
        build(tmp_path)


def test_ninja_is_found_in_the_path_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(ninja_program()).is_file()
    monkeypatch.setitem(sys.modules, "ninja", None)
    other = tmp_path / "ninja"
    other.write_text("#!/bin/sh\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ninja_program() == str(other)
    other.unlink()
    with pytest.raises(ToolMissing, match="ninja-build"):
        ninja_program()


def test_a_compiler_cache_does_not_lose_the_call_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for ccache in front of the compiler: on a hit it would leave the .ci file out."""
    wrapper = tmp_path / "bin/arm-none-eabi-gcc"
    wrapper.parent.mkdir()
    real = shutil.which("arm-none-eabi-gcc")
    lose = 'for last; do :; done\nrm -f "${last%.o}.ci"'
    wrapper.write_text(f'#!/bin/sh\n{real} "$@" || exit\n[ -n "$CCACHE_DISABLE" ] && exit\n{lose}\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    write_small(tmp_path / "p", "stm32f405")
    assert build(tmp_path / "p")
    assert list((tmp_path / "p").rglob("*.ci"))
