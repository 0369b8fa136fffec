"""The C that the READMEs show: it compiles without a warning, links with the package alone, and runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from compiling import COMPILERS, WARNINGS
from small_models import HOST_BOARD, ORACLE, PORTABLE_BOARD, ROOT, SHAKESPEARE, make_package, sensor

from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme

# Of token models: the reference answers for each position.
SHORT = {"context": 16}


def shown(readme: Path) -> str:
    (code,) = re.findall(r"```c\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


def compile_and_link(folder: Path, compiler: str, main: Path, *arguments: str) -> None:
    include = [f"-I{folder}", f"-I{folder / 'runtime/include'}", f"-I{folder / 'runtime'}"]
    line = next(line for line in (folder / "build.ninja").read_text().splitlines() if line.startswith("cpu = "))
    machine = [] if "-fsyntax-only" in arguments else line.removeprefix("cpu = ").split()
    command = [
        compiler,
        "-std=c11",
        "-O2",
        "-ffp-contract=off",
        "-fno-math-errno",
        *WARNINGS,
        *machine,
        *include,
        str(main),
        *arguments,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", [sensor("top1-e3-tiny"), ORACLE / "mixtral-base"], ids=lambda path: path.name)
def test_code_of_a_packages_readme(tmp_path: Path, source: Path, compiler: str) -> None:
    make_package(source, tmp_path / "package", HOST_BOARD, **(SHORT if source.parent == ORACLE else {}))
    (tmp_path / "main.c").write_text(shown(tmp_path / "package/README.md"))
    sources = [str(path) for path in sorted((tmp_path / "package").glob("src/*"))]
    sources += [str(path) for path in sorted((tmp_path / "package").glob("runtime/core/*.c"))]
    compile_and_link(tmp_path / "package", compiler, tmp_path / "main.c", *sources, "-o", str(tmp_path / "program"))
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


def test_code_of_a_bare_boards_readme(tmp_path: Path) -> None:
    make_package(ORACLE / "mixtral-base", tmp_path / "package", PORTABLE_BOARD, **SHORT)
    (tmp_path / "main.c").write_text(shown(tmp_path / "package/README.md"))
    compile_and_link(tmp_path / "package", "gcc", tmp_path / "main.c", "-fsyntax-only")


def test_code_of_the_projects_readme(tmp_path: Path) -> None:
    """Its calls stand outside of a function and leave their answers unread, as a sketch may."""
    demo = {"scheme": Scheme.W4A8, "kv": StateType.F16, "prefill": 8}
    make_package(SHAKESPEARE, tmp_path / "package", "nucleo-h743zi", **demo)
    memory, calls = shown(ROOT / "README.md").split("\n\nshakespeare_moe_context *model;\n")
    run = "run(const uint32_t *prompt, uint32_t length, float *logits)"
    body = f"{{\nshakespeare_moe_context *model;\n{calls}}}\n"
    (tmp_path / "main.c").write_text(f"{memory}\nvoid {run};\nvoid {run}\n{body}")
    compile_and_link(tmp_path / "package", "gcc", tmp_path / "main.c", "-fsyntax-only")


@pytest.mark.parametrize("source", [sensor("top1-e3-tiny"), ORACLE / "mixtral-base"], ids=lambda path: path.name)
def test_the_header_is_cpp_too(tmp_path: Path, source: Path) -> None:
    package = make_package(source, tmp_path / "package", HOST_BOARD, **(SHORT if source.parent == ORACLE else {}))
    (tmp_path / "main.cpp").write_text(
        f'#include "model.h"\nint main() {{ return {package.prefix}_num_experts(0) == 0; }}\n'
    )
    include = [f"-I{tmp_path / 'package'}", f"-I{tmp_path / 'package/runtime/include'}"]
    command = ["clang", "-x", "c++", "-std=c++11", *WARNINGS, *include, "-fsyntax-only", str(tmp_path / "main.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
