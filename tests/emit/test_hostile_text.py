"""Names, labels and licences that try to break out of the files they are written into."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from compiling import COMPILERS, compile_strictly
from make_bad import data_of, header_of, write_raw
from small_models import make_package, sensor_arrays, write_mixtral, write_sensor

from colibri.boards.load import load_board
from colibri.generate import generate
from colibri.options import Options
from colibri.package import load_package

TRIGRAPH = "?" + "?"
EVIL = [
    "*" + "/ int pwned = 1; /" + "*",
    f"{TRIGRAPH}/\n int pwned;",
    'x" ); system("id',
    "{{ 7 * 7 }}{% raw %}",
    "a\\\nb\\",
    "$(touch pwned) `id` ${HOME} $out",
    "\u202e\u0000\x1b[31m",
    "#define main pwned\n#include </etc/passwd>",
    "",
    "–" * 200,
]


def compile_all(package: Path) -> None:
    """Both compilers take it, and no text of the checkpoint is left where code is."""
    for compiler in COMPILERS:
        compile_strictly(package, compiler, only_parse=True)
    prefix = load_package(package).prefix  # made of the folder's name, so it may hold its words
    for source in (package / "src/model.c", package / "model.h", package / "app/product.c", package / "app/test.c"):
        code = strip_comments(source.read_text()).replace(prefix, "").replace(prefix.upper(), "")
        assert "pwned" not in code


def strip_comments(code: str) -> str:
    """The code without its comments, as the compiler sees it."""
    result = subprocess.run(
        ["gcc", "-std=c11", "-fpreprocessed", "-dD", "-E", "-P", "-"],
        input=code,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


@pytest.mark.parametrize("number", range(len(EVIL)))
def test_folder_names(tmp_path: Path, number: int) -> None:
    name = EVIL[number].replace("/", "∕").replace("\0", "")
    if not name or len(name.encode()) > 200:
        name = "–" * 60
    source = write_sensor(tmp_path / name)
    package = make_package(source, tmp_path / "out")
    assert package.prefix.isidentifier() and package.prefix.isascii()
    compile_all(tmp_path / "out")


@pytest.mark.parametrize("name", ["test", "product", "all", "port", "colibri", "int", "main", "CON", "-rf", "2", "é"])
def test_folder_names_that_mean_something_elsewhere(tmp_path: Path, name: str) -> None:
    source = write_sensor(tmp_path / name)
    package = make_package(source, tmp_path / "out")
    compile_all(tmp_path / "out")
    cmake = (tmp_path / "out" / "CMakeLists.txt").read_text()
    assert f"add_library({package.prefix} STATIC" in cmake
    assert package.prefix not in ("test", "product", "all", "port", "colibri", "int", "main")


def test_labels(tmp_path: Path) -> None:
    source = write_sensor(tmp_path / "m", inputs=EVIL[:5], outputs=EVIL[5:7])
    package = make_package(source, tmp_path / "out")
    assert package.model.labels["inputs"] == tuple(EVIL[:5])
    compile_all(tmp_path / "out")
    header = (tmp_path / "out/model.h").read_text()
    assert len([line for line in header.splitlines() if line.startswith("/* input ")]) == 5
    assert header.isascii()


@pytest.mark.parametrize("number", range(len(EVIL)))
def test_licence_in_the_metadata(tmp_path: Path, number: int) -> None:
    source = write_sensor(tmp_path / "m")
    arrays = sensor_arrays()
    header = header_of(arrays)
    header["__metadata__"] = {"format": "np", "license": EVIL[number]}
    write_raw(source / "model.safetensors", header, data_of(arrays))
    make_package(source, tmp_path / "out")
    compile_all(tmp_path / "out")
    readme = (tmp_path / "out/README.md").read_text()
    lines = [line for line in readme.splitlines() if line.startswith("The checkpoint says of its licence: ")]
    assert len(lines) == (1 if EVIL[number].strip() else 0)
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_licence_file_and_tokenizer_go_no_further_than_they_should(tmp_path: Path) -> None:
    source = write_mixtral(tmp_path / "m")
    (source / "LICENSE").write_text(EVIL[0] + "\nsecond line\n")
    (source / "tokenizer.json").write_text(json.dumps({"evil": EVIL}))
    generate(source, load_board("x86-64-v3"), Options(context=8), tmp_path / "out")
    compile_all(tmp_path / "out")
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    mentioned = [p.name for p in (tmp_path / "out").rglob("*") if p.is_file() and b"pwned" in p.read_bytes()]
    assert sorted(mentioned) == ["README.md", "model.bin", "tokenizer.json"]
