"""The Python package: pip compiles and installs it without network, and it gives the bits of every golden vector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest
from exporting import ENCODER, LANGUAGE, SENSOR, make_export, succeed
from small_models import HOST_BOARD

from colibri.cli import main
from colibri.testing import read_cases

# Asks an installed package every golden vector; prints the titles of those that differ.
ASK = """
import json, sys
from array import array
from importlib import import_module
model, refused = (module := import_module(sys.argv[1])).Model(), module.ModelError
def call(function, *arguments):
    try:
        answer = function(*arguments)
    except refused as error:
        return [int(error.status), ""]
    return [0, bytes(answer).hex() if answer is not None else None]
for title, op, payload, answers in json.load(open(sys.argv[2])):
    raw = bytes.fromhex(payload)
    words = array("I", raw)
    if op == "P":
        got = [call(model.prefill, words)]
    elif op == "S":
        got = [call(model.step, word) for word in words]
    elif op == "E":
        got = [call(model.encode, words)]
    elif op == "R":
        got = [call(model.reset)]
        assert model.position == 0
    else:
        got = [call(model.forward, array("f", raw))]
    if [one[0] for one in got] != [one[0] for one in answers] or op not in "RE" and got != answers:
        print("DIFFERENT", title)
print("asked")
"""
NUMPY = """
import numpy
from top1_e3_tiny_model import BATCH, INPUTS, OUTPUTS, Model
model, samples = Model(), numpy.linspace(-2, 2, BATCH * INPUTS, dtype="f8").reshape(BATCH, INPUTS)
found = model.forward(samples)
assert found.shape == (BATCH, OUTPUTS) and found.dtype == numpy.float32
assert found.tobytes() == bytes(model.forward(samples.tolist())) == bytes(model.forward(samples.ravel().tolist()))
assert model.forward(samples.T[::-1].T[:, ::-1]).tobytes() == found.tobytes()
from mixtral_base_model import Model
model = Model()
assert model.prefill(numpy.array([3, 1], "u2")).dtype == numpy.float32 and model.position == 2
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with both packages, installed by pip with hostile options of the user's."""
    folder = tmp_path_factory.mktemp("python")
    exports = []
    for source in (SENSOR, LANGUAGE, ENCODER):
        made = make_export(folder / source.name, "python", source, HOST_BOARD)
        (folder / f"{source.name}.json").write_text(json.dumps(cases_of(folder / source.name / "package")))
        exports.append(made)
    venv.create(folder / "env", with_pip=True)
    python = folder / "env/bin/python"
    environment = {**os.environ, "CFLAGS": "-O3 -ffast-math -ffp-contract=fast"}
    succeed(python, "-m", "pip", "install", "--no-index", "--no-build-isolation", *exports, env=environment)
    return python


def cases_of(package: Path) -> list[tuple[str, str, str, list[list[object]]]]:
    return [
        (case.title, case.op, case.payload.hex(), [[one.status, one.payload.hex()] for one in case.answers])
        for case in read_cases(package)
        if case.op in "PSFRE"
    ]


@pytest.mark.parametrize("name", ["top1_e3_tiny", "mixtral_base", "switch_base"])
def test_every_golden_vector(installed: Path, name: str) -> None:
    folder = installed.parents[2]
    assert "equal to the reference" in succeed(installed, "-m", f"{name}_model", cwd=folder)
    said = succeed(installed, "-c", ASK, f"{name}_model", folder / f"{name.replace('_', '-')}.json", cwd=folder)
    assert said == "asked\n"


def test_arrays_of_numpy(installed: Path) -> None:
    site = Path(numpy.__file__).parents[1]
    succeed(installed, "-c", NUMPY, env={**os.environ, "PYTHONPATH": str(site)})


def test_damaged_weights_are_refused(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"nothing of the kind" * 9)
    code = (
        "import sys; from top1_e3_tiny_model import Model, ModelError, Status\n"
        "try: Model([sys.argv[1]])\nexcept ModelError as error: print(error.status is Status.MODEL_UNKNOWN, error)"
    )
    said = succeed(installed, "-c", code, tmp_path / "weights")
    assert said == "True the model does not begin with COLIBRI, or its header is damaged\n"


def test_it_is_typed_and_tidy(tmp_path: Path) -> None:
    folders = [make_export(tmp_path / one.name, "python", one, HOST_BOARD) for one in (SENSOR, LANGUAGE, ENCODER)]
    packages = [path.parent for folder in folders for path in folder.glob("*/__init__.py")]
    assert len(packages) == 3
    succeed(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "types", *packages)
    succeed(sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", *folders)


def test_equal_wheels_and_without_a_compiler_one_line(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "python", SENSOR, HOST_BOARD)
    code = "import build_library; build_library.build_wheel('.')"
    environment = {**os.environ, "CC": "no-such-compiler"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and not list(folder.glob("*.whl"))
    wheels = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        build = f"import build_library; build_library.build_wheel({str(tmp_path / name)!r})"
        succeed(sys.executable, "-c", build, cwd=folder)
        wheels += [path.read_bytes() for path in (tmp_path / name).glob("*.whl")]
    assert len(wheels) == 2 and wheels[0] == wheels[1]
    assert done.stderr.splitlines() == [
        "top1_e3_tiny_model: no-such-compiler: No such file or directory; install a C compiler, or name it with CC"
    ]


def test_a_board_without_an_operating_system_has_no_shared_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(SENSOR), "--board", "stm32f405", "-o", str(tmp_path / "package")]) == 0
    capsys.readouterr()
    assert main(["export", str(tmp_path / "package"), "--to", "python", "-o", str(tmp_path / "out")]) == 2
    assert "--to python: is for linux boards" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
