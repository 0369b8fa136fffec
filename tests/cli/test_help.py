"""Help is quick, complete and costs no heavy import."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import colibri
from colibri.cli import COMMANDS, main

HEAVY = ["numpy", "elftools", "jinja2", "ninja", "rich", "safetensors", "ml_dtypes", "tokenizers", "msgspec"]


def modules_after(arguments: list[str]) -> set[str]:
    """Run the command line in a fresh interpreter; return what it imported."""
    code = (
        "import json, sys\nfrom colibri.cli import main\n"
        f"assert main({arguments!r}) == 0\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return set(json.loads(result.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not modules_after(arguments) & set(HEAVY)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: colibri {name}" in out and f"Example: colibri {name}" in out and "--json" in out


def test_the_list_of_commands_says_what_each_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        line = next(line for line in out.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split(maxsplit=1)[1]) > 15 and not line.endswith("...")
    assert "Exit codes: 0 fine" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"colibri, version {colibri.__version__}\n"


def test_no_arguments_is_wrong_usage_and_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert "Usage: colibri" in captured.out + captured.err
