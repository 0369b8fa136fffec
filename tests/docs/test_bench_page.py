"""docs/bench.md says what the program does, and ci/bench can write into it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from colibri.cli.bench import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/bench.md").read_text(encoding="utf-8")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")


def test_the_page_names_every_option() -> None:
    options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
    assert len(options) == 7
    assert [name for name in options if f"`{name}" not in PAGE] == []


def test_the_page_has_a_place_for_the_figures() -> None:
    begin = "<!-- begin: ci/bench --write -->\n"
    assert PAGE.count(begin) == 1 and PAGE.partition(begin)[2].count("<!-- end -->") == 1


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_limits_of_the_machine(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program, source = tmp_path / "limits", ROOT / "ci/bench_limits.c"
    flags = ["-std=c11", "-O2", "-march=x86-64-v3", "-ffp-contract=off", "-pthread", f"-I{ROOT / 'runtime_c'}"]
    subprocess.run([compiler, *flags, *WARNINGS, str(source), "-o", str(program)], check=True)

    def printed(*call: str) -> tuple[int, list[str]]:
        done = subprocess.run([program, *call], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.split()

    for call in (("router", "8", "2"), ("read", "65536", "2"), ("peak", "avx2")):
        code, words = printed(*call)
        assert code in (0, 3) and len(words) == (code == 0) and all(float(word) > 0 for word in words)
    for wrong in (("router", "8", "9"), ("router", "8", "0"), ("read", "65536", "0"), ("read", "100", "1"), ("what",)):
        assert printed(*wrong) == (2, [])
    assert printed("peak", "unheard of") == (3, [])
