"""`colibri matrix --ci`: valid by the services' own schemas, and its commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from small_models import sensor

from colibri.cli import main
from colibri.errors import UsageError
from colibri.matrix.ci import Service, ci_file

SCHEMAS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's: a model, and a budget that it does not meet."""
    folder = tmp_path / "my firmware"
    shutil.copytree(sensor("top1-e3-tiny"), folder / "models" / "it's a model")
    monkeypatch.chdir(folder)
    return folder


def made(service: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["matrix", "models/it's a model", "--board", "stm32f405", *words, "--ci", service]) == 0
    return capsys.readouterr().out


def loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def script_of(service: str, text: str) -> list[str]:
    """The shell commands that come after the installation."""
    document = loaded(text)
    if service == "gitlab":
        return list(document["firmware"]["script"])
    steps = document["jobs"]["matrix"]["steps"]
    return [step["run"] for step in steps if step.get("name") in ("Build, run, compare, measure", "Size budgets")]


@pytest.mark.parametrize("service", SCHEMAS)
def test_it_is_valid_by_the_schema_of_the_service(
    service: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "ci.yml").write_text(made(service, capsys, "--board", "riscv*", "--recipe", "w4a8"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[service], "ci.yml"]
    if service == "gitlab":
        command += ["--data-transform", "gitlab-ci"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (repository / "ci.yml").read_text()
    assert "gcc-arm-none-eabi gcc-riscv64-unknown-elf qemu-system-arm qemu-system-misc" in text
    assert all(part == part.rstrip() for part in text.split("\n"))


def test_what_zizmor_says_of_the_workflow(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing, when actions may be named by a version."""
    (repository / ".github/workflows").mkdir(parents=True)
    path = repository / ".github/workflows/firmware.yml"
    path.write_text(made("github", capsys))
    (repository / "zizmor.yml").write_text(
        'rules:\n  unpinned-uses:\n    config:\n      policies:\n        "*": ref-pin\n'
    )
    zizmor = Path(sys.executable).with_name("zizmor")
    command = [zizmor, "--offline", "--config", "zizmor.yml", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.emulator
def test_its_commands_run(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = {service: script_of(service, made(service, capsys, "-o", "out put")) for service in SCHEMAS}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", script], capture_output=True, text=True, check=False, env=environment, cwd=repository
        )

    build, budgets = scripts["github"]
    assert run(build).returncode == 0
    assert (repository / "junit.xml").is_file() and "| stm32f405 | gcc | yes |" in (
        repository / "matrix.md"
    ).read_text()
    assert run(budgets).returncode == 0
    (cell,) = [path for path in (repository / "out put").iterdir() if path.is_dir() and path.name != ".ninja"]
    (repository / "budgets").mkdir()
    (repository / f"budgets/{cell.name}.toml").write_text("[flash]\nfail = 4096\n")
    over = run(budgets)
    assert over.returncode == 3 and "::error title=flash over budget::" in over.stdout
    (script,) = scripts["gitlab"]
    again = run(script)
    assert again.returncode == 3 and "over budget: flash by" in again.stderr


@pytest.mark.parametrize("word", ["/home/me/model", "a\nb", "${{ secrets.X }}", "$[[ inputs.x ]]"])
def test_what_such_a_file_cannot_hold(word: str) -> None:
    for service in Service:
        with pytest.raises(UsageError):
            ci_file(service, [word], Path("build"), [])
