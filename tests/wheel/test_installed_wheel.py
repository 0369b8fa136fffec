"""The wheel carries all that it needs: a board is built and tested from it, outside the tree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next((folder / "dist").glob("colibri_firmware-*.whl"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder / "site"),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "site"


def colibri(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "colibri", *arguments]
    return subprocess.run(command, cwd=site.parent, env=environment, capture_output=True, text=True, check=False)


def test_runs_from_the_wheel_not_from_the_tree(site: Path) -> None:
    where = "import colibri, colibri.paths as p; print(colibri.__file__); print(p.data_folder('boards'))"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", where], cwd=site.parent, env=environment, capture_output=True, text=True, check=True
    )
    package, boards = done.stdout.split()
    assert Path(package).is_relative_to(site)
    assert Path(boards) == site / "colibri" / "_data" / "boards"


@pytest.mark.emulator
def test_builds_and_tests_a_board_outside_the_tree(site: Path) -> None:
    checkpoint = str(ROOT / "examples" / "load-moe" / "top1-e4")
    built = colibri(site, "build", checkpoint, "--board", "stm32f405", "-o", "package")
    assert built.returncode == 0, built.stderr
    tested = colibri(site, "test", "package", "--instructions")
    assert tested.returncode == 0, tested.stderr
    assert "equal: 42 cases" in tested.stdout
    assert "instructions per call" in tested.stdout
