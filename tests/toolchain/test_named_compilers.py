"""A compiler of the user's: found with its tools beside it, or refused with the reason."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from colibri.boards.load import load_board
from colibri.boards.profile import CompilerFamily
from colibri.cli import main
from colibri.errors import BadInput, ToolMissing, UsageError
from colibri.generate import generate
from colibri.options import Options
from colibri.package import load_package
from colibri.testing import check_package
from colibri.toolchain import probe
from colibri.toolchain.compiler import standard_compiler
from colibri.toolchain.find import find_toolchain, try_toolchain
from colibri.toolchain.named import named_compilers
from colibri.toolchain.places import clang_folders, compiler_of, disassembler, remember

MODEL = Path(__file__).resolve().parents[2] / "examples" / "load-moe" / "top1-e4"
BOARD = "stm32f405"
TOOLS = ("gcc", "ar", "objcopy", "objdump")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A toolchain with a prefix of its own, in a folder that a shell would take apart."""
    folder = tmp_path / 'Vendor\'s tools; $(exit 1) "v2"' / "bin"
    for tool in TOOLS:
        program = shutil.which(f"arm-none-eabi-{tool}")
        if program is None:
            pytest.skip("arm-none-eabi-gcc is not installed")
        script(folder / f"arm-vendor-eabi-{tool}", f'exec {shlex.quote(program)} "$@"')
    return folder


@pytest.mark.parametrize("named", ["arm-vendor-eabi-gcc", "arm-vendor-eabi-", "", ".."])
def test_a_vendor_compiler_by_its_path_its_prefix_or_its_folder(named: str, vendor: Path) -> None:
    (found,) = named_compilers(load_board(BOARD), f"{vendor}/{named}")
    compiler = found.compiler
    assert compiler.family is CompilerFamily.GCC
    assert (*compiler.cc, *compiler.ar, *compiler.objcopy, compiler.objdump) == tuple(
        f"arm-vendor-eabi-{tool}" for tool in TOOLS
    )
    assert Path(found.which(compiler.objdump) or "").resolve() == vendor / compiler.objdump


@pytest.mark.emulator
def test_it_builds_and_later_commands_find_it(vendor: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["build", str(MODEL), "--board", BOARD, "--toolchain", str(vendor), "-o", str(out)]) == 0
    assert "cc = arm-vendor-eabi-gcc\n" in (out / "build.ninja").read_text()
    assert disassembler(out) == shutil.which("arm-none-eabi-objdump")  # the board's, which is in the PATH
    assert compiler_of(out).folder == vendor
    (out / "build/test.elf").unlink(missing_ok=True)
    assert all(result.passed for result in check_package(out))
    own = tmp_path / "own"
    generate(MODEL, load_board(BOARD), Options(), own)
    for name in ("model.bin", "src/model.c", "test/vectors.msgpack"):
        assert (own / name).read_bytes() == (out / name).read_bytes()


def test_a_package_on_a_machine_without_the_folder(vendor: Path, tmp_path: Path) -> None:
    found = find_toolchain(load_board(BOARD), str(vendor))
    generate(MODEL, load_board(BOARD), Options(), tmp_path / "out", found.compiler)
    remember(tmp_path / "out", found)
    shutil.rmtree(vendor)
    assert compiler_of(tmp_path / "out").folder is None
    assert load_package(tmp_path / "out").compiler == found.compiler


def test_a_version_is_not_taken_for_the_one_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = 'case "$*" in *-dM*) echo "#define __clang__ 1";; esac'
    newest = script(tmp_path / "llvm-99" / "clang", answer)
    old = script(tmp_path / "path" / "clang", answer)
    (tmp_path / "path" / "clang-99").symlink_to(newest)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    (found,) = named_compilers(load_board(BOARD), "clang-99")
    assert (found.compiler.cc, found.folder) == (("clang",), newest.parent)
    (found,) = named_compilers(load_board(BOARD), str(old))
    assert (found.compiler.cc, found.folder) == (("clang",), None)
    assert clang_folders()[0] == newest.parent


def test_half_a_vendor_toolchain(vendor: Path) -> None:
    (vendor / "arm-vendor-eabi-objcopy").unlink()
    tried = try_toolchain(load_board(BOARD), str(vendor))
    assert [one.reason for one in tried] == ["arm-vendor-eabi-objcopy is not installed"]


def test_the_first_of_a_folder_that_serves(vendor: Path) -> None:
    script(
        vendor / "aaa-gcc",
        'case "$*" in *-dM*) echo "#define __GNUC__ 1";; *) echo "error: no Arm" >&2; exit 1;; esac',
    )
    for tool in ("ar", "objcopy"):
        script(vendor / f"aaa-{tool}", "exit 0")
    first, second = try_toolchain(load_board(BOARD), str(vendor))
    assert (first.name, first.serves, second.serves) == (str(vendor / "aaa-gcc"), False, True)
    assert "no Arm" in first.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo Usage: frobnicate FILE; exit 2", "is no C compiler of a family that Colibri knows: Usage: frobnicate"),
        ("exit 0", "ended with 0 and said nothing"),
        ("echo '#define __GNUC__ 12'; exit 1", "is no C compiler"),
        ("sleep 60", "no answer within 0.5 s"),
        ("kill -9 $$", "ended with -9"),
        ("printf '\\033[2J\\377\\000'", "is no C compiler"),
    ],
)
def test_a_program_that_is_no_compiler(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe, "_ANSWER", 0.5)
    program = script(tmp_path / "cc", text)
    with pytest.raises(UsageError, match="is no C compiler") as caught:
        named_compilers(load_board(BOARD), str(program))
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
    assert main(["doctor", "--board", BOARD, "--toolchain", str(program)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_no_program_at_all(tmp_path: Path) -> None:
    plain = tmp_path / "gcc"
    plain.write_text("int main;")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for named, said in [
        (plain, "is not executable"),
        (tmp_path / "empty", "no compiler in this folder"),
        (tmp_path / "nowhere" / "gcc", "no such program, folder or prefix"),
        (tmp_path / "loop", "no such program, folder or prefix"),
        ("no-such-compiler", "no such program, folder or prefix"),
        ("x/" * 3000 + "gcc", "File name too long|no such program"),
        (f"{tmp_path}/{'x' * 300}", "File name too long"),
        (script(tmp_path / "my gcc", "exit 0"), "the name 'my gcc' of the compiler"),
        (script(tmp_path / "a:b" / "gcc", "exit 0"), "a folder that PATH cannot name"),
    ]:
        with pytest.raises(UsageError, match=said):
            find_toolchain(load_board(BOARD), str(named))


def test_a_compiler_for_another_processor() -> None:
    if shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed")
    with pytest.raises(ToolMissing, match=r"riscv64-unknown-elf-gcc.*(unrecognized|mthumb|march)"):
        find_toolchain(load_board(BOARD), "riscv64-unknown-elf-gcc")


def test_a_clang_without_lld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clang = shutil.which("clang")
    assert clang is not None, "clang is not installed"
    text = f'case "$*" in *fuse-ld=lld*) echo "clang: error: invalid linker name" >&2; exit 1;; esac; exec {clang} "$@"'
    script(tmp_path / "clang", text)
    (tried,) = try_toolchain(load_board("x86-64-v3"), str(tmp_path / "clang"))
    assert tried.reason == "error: invalid linker name"
    with pytest.raises(ToolMissing, match="invalid linker name"):
        find_toolchain(load_board("x86-64-v3"), str(tmp_path / "clang"))


def test_clang_on_bare_metal_needs_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("clang", "llvm-ar", "llvm-objcopy", "ld.lld"):
        found = shutil.which(program)
        assert found is not None, f"{program} is not installed"
        (tmp_path / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="arm-none-eabi-gcc, which has one, is not installed"):
        find_toolchain(load_board(BOARD), "clang")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("-ffast-math", "changes results"),
        ("-Ofast", "changes results"),
        ("-ffp-contract=on", "changes results"),
        ("-ffp-contract=fast", "changes results"),
        ("-ffp-model=fast", "changes results"),
        ("-fdenormal-fp-math=positive-zero", "changes results"),
        ("-fshort-enums", "lays out types"),
        ("-fpack-struct=1", "lays out types"),
        ("-o/tmp/x", "for the build files to say"),
        ("-flto", "for the build files to say"),
        ("-O2 -Os", "is no compiler option"),
        ("-DX=$(id)", "is no compiler option"),
        ("x.c", "is no compiler option"),
    ],
)
def test_options_that_would_break_what_is_promised(flag: str, said: str, tmp_path: Path) -> None:
    arguments = ["build", str(MODEL), "--board", BOARD, "-o", str(tmp_path / "out")]
    assert main([*arguments, "--cflag", flag]) == 2
    assert not (tmp_path / "out").exists()
    mine = tmp_path / "mine.toml"
    mine.write_text(f'inherits = "{BOARD}"\n[toolchain]\ncflags = ["{flag}"]\n')
    with pytest.raises(BadInput, match=said) as caught:
        load_board(mine)
    assert "mine.toml:3: toolchain.cflags" in str(caught.value)


def test_an_option_that_the_compiler_rejects_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", str(MODEL), "--board", BOARD, "-o", str(tmp_path / "out"), "--cflag", "-g", "--cflag"]
    for flag in ("-fno-such", "-fsanitize=address"):  # the second compiles, and does not link
        assert main([*arguments, flag]) == 2
        assert f"colibri: {flag}: does not build with it: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*arguments, "-Dint=long"]) == 6  # right for the line that is tried, not for what is built
    assert "Colibri's own options are followed by -g -Dint=long" in capsys.readouterr().err


@pytest.mark.emulator
def test_options_behind_those_of_colibri(tmp_path: Path) -> None:
    sysroot = tmp_path / "a root $HOME's"
    sysroot.mkdir()
    arguments = ["build", str(MODEL), "--board", BOARD, "-o", str(tmp_path / "out")]
    added = ["--cflag", "-Os", "--cflag=-fno-strict-aliasing", "--sysroot", str(sysroot)]
    assert main([*arguments, *added]) == 0
    package = load_package(tmp_path / "out")
    assert package.board.toolchain.cflags == ("-Os", "-fno-strict-aliasing")
    assert package.code_estimate is not None and package.code_estimate.within is None
    ninja = (tmp_path / "out/build.ninja").read_text()
    assert ninja.index("-O2") < ninja.index("-Os -fno-strict-aliasing") < ninja.index("rule library")
    assert f"""--sysroot={sysroot}""".replace("'", "'\"'\"'").replace("$", "$$") in ninja
    assert all(result.passed for result in check_package(tmp_path / "out"))
    if shutil.which("cmake") and shutil.which("ninja"):
        folder = tmp_path / "out"
        for line in (["-B", "made", "-G", "Ninja", "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake"], ["--build", "made"]):
            subprocess.run(["cmake", *line], cwd=folder, check=True, capture_output=True)


def test_a_sysroot_that_is_not_there(tmp_path: Path) -> None:
    assert (
        main(["generate", str(MODEL), "--board", BOARD, "--sysroot", str(tmp_path / "x"), "-o", str(tmp_path / "o")])
        == 2
    )
    mine = tmp_path / "mine.toml"
    mine.write_text(f'inherits = "{BOARD}"\n[toolchain]\nsysroot = "relative/path"\n')
    with pytest.raises(BadInput, match="no whole path"):
        load_board(mine)


def test_a_target_that_would_be_a_command(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'inherits = "{BOARD}"\n[toolchain]\nclang_target = "arm; id"\n')
    with pytest.raises(BadInput, match=r"mine\.toml:3: toolchain\.clang_target: 'arm; id' is no target of clang"):
        load_board(mine)


def test_a_family_of_the_board_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f'inherits = "{BOARD}"\n[toolchain]\nfamily = "clang"\n')
    board = load_board(mine)
    assert standard_compiler(board).cc == ("clang",)
    generate(MODEL, board, Options(), tmp_path / "out")
    assert "cc = clang\n" in (tmp_path / "out/build.ninja").read_text()
    nothing = msgspec.structs.replace(board, toolchain=msgspec.structs.replace(board.toolchain, clang_target="pdp11"))
    assert try_toolchain(nothing, "zig")[0].reason == "no target of zig is known for pdp11"


@pytest.mark.parametrize("script", ["sleep 1000", "sleep 1000 & exit 1"])
def test_a_compiler_that_hangs_ends_with_all_that_it_started(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("colibri.toolchain.probe._ANSWER", 0.5)
    compiler = tmp_path / "my-gcc"
    compiler.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/group\n{script}\n")
    compiler.chmod(0o755)
    arguments = ["build", str(MODEL), "--board", BOARD, "-o", str(tmp_path / "out"), "--toolchain", str(compiler)]
    assert main(arguments) == 2
    assert "no answer within 0.5 s" in capsys.readouterr().err
    group = (tmp_path / "group").read_text().strip()
    until = time.monotonic() + 10
    while _members(group) and time.monotonic() < until:  # a signal takes its time
        time.sleep(0.02)
    assert _members(group) == []


def _members(group: str) -> list[str]:
    """Processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(") ")[2].split()[:3]
        except OSError:  # it has ended
            continue
        if its_group == group and state != "Z":
            found.append(path.parent.name)
    return found
