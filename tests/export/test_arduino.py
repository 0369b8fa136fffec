"""The Arduino library, built by arduino-builder as the IDE does, with a stand-in for a board's core, and run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, make_export, run_on_board, succeed
from small_models import make_package

from colibri.export.export import export
from colibri.export.form import Label

HARDWARE = Path(__file__).parent / "arduino/hardware"


def build_sketch(sketch: Path, libraries: Path, out: Path) -> Path:
    """All of the sketch and its libraries in one object."""
    out.mkdir()
    (out / "tools").mkdir()
    succeed(
        "arduino-builder", "-compile", "-hardware", HARDWARE, "-tools", out / "tools", "-libraries", libraries,
        "-fqbn", "colibri:stand_in:cortex_m4", "-build-path", out, "-warnings", "all", "-ide-version", "10819",
        f"-prefs=build.device={DEVICE}", sketch,
    )  # fmt: skip
    return out / f"{sketch.name}.o"


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_the_example_of_the_library(tmp_path: Path, source: Path) -> None:
    folder = make_export(tmp_path, "arduino", source)
    (name,) = re.findall(r"^name=(.*)$", (folder / "library.properties").read_text(), re.M)
    library = tmp_path / "libraries" / name
    shutil.copytree(folder, library)
    image = build_sketch(library / "examples/Check/Check.ino", library.parent, tmp_path / "out")
    assert EQUAL in run_on_board(tmp_path / "package", [image], tmp_path)


def test_two_models_in_one_sketch(tmp_path: Path) -> None:
    for prefix in ("one", "two"):
        make_package(SENSOR, tmp_path / "package", prefix=prefix, board="stm32f405")
        export(tmp_path / "package", "arduino", Label(), tmp_path / f"libraries/{prefix}_model")
    sketch = tmp_path / "both"
    sketch.mkdir()
    for prefix in ("one", "two"):
        shutil.copy(tmp_path / f"libraries/{prefix}_model/examples/Check/{prefix}_check.h", sketch)
    (sketch / "both.ino").write_text(
        '#include <one_model.h>\n#include <two_model.h>\n#include "one_check.h"\n#include "two_check.h"\n'
        f'void setup() {{ Serial.println(!one_check() && !two_check() ? "{EQUAL}" : "no"); }}\nvoid loop() {{}}\n'
    )
    image = build_sketch(sketch / "both.ino", tmp_path / "libraries", tmp_path / "out")
    assert EQUAL in run_on_board(tmp_path / "package", [image], tmp_path)


def test_properties_as_the_specification_has_them(tmp_path: Path) -> None:
    label = Label("1.2.3", "Example-Motors", "https://example.com/model")
    text = (make_export(tmp_path, "arduino", label=label) / "library.properties").read_text()
    fields = dict(line.split("=", 1) for line in text.splitlines())
    assert re.fullmatch(r"[A-Za-z0-9][\w .-]{0,62}", fields["name"])
    assert fields["version"] == "1.2.3" and fields["author"] == fields["maintainer"] == "Example-Motors"
    assert fields["url"] == "https://example.com/model" and fields["category"] == "Data Processing"
    assert set(fields) == {
        "name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures",
        "includes", "dot_a_linkage",
    }  # fmt: skip
