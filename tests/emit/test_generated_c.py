"""The generated C: both compilers take it without a warning, and it reads as if written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import COMPILERS, compile_strictly
from small_models import HOST_BOARD, ORACLE, PORTABLE_BOARD, make_package, sensor

from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme

MIXTRAL, SENSOR = ORACLE / "mixtral-base", sensor("top2-e4-norm")
UNEVEN = {"drop": {0: {1, 5}, 1: {0, 2, 7}}}
SHORT = {"context": 20}  # the golden vectors, made each time, fill the context


def texts(package: Path) -> dict[str, str]:
    """Every text file of the package."""
    names = ("*.c", "*.h", "*.S", "*.md", "*.txt", "*.ninja", "*.cmake", "*.json", "*.ld")
    return {str(p.relative_to(package)): p.read_text("utf-8") for name in names for p in sorted(package.rglob(name))}


def function_bodies(source: str) -> dict[str, str]:
    """Functions of a C file by name."""
    return {m[1]: m[2] for m in re.finditer(r"^[a-z_][\w *]* \*?(\w+)\([^;{]*\)\n\{\n(.*?)^\}", source, re.M | re.S)}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize(
    ("source", "options"),
    [
        (SENSOR, {}),
        (SENSOR, {"batch": 5, "drop": {0: {3}}}),
        (MIXTRAL, SHORT),
        (MIXTRAL, {"prefill": 4, "kv": StateType.F16, **SHORT, **UNEVEN}),
    ],
    ids=["sensor", "sensor-batch", "mixtral", "mixtral-prefill-uneven"],
)
def test_no_warning(tmp_path: Path, source: Path, options: dict[str, object], scheme: Scheme, compiler: str) -> None:
    """On a board of portable kernels when the batch is 1, else on the host's with its own."""
    board = HOST_BOARD if len(options) > 1 else PORTABLE_BOARD
    make_package(source, tmp_path / "p", board, scheme=scheme, **options)
    compile_strictly(tmp_path / "p", compiler)


@pytest.mark.parametrize("name", ["mixtral-fused-disk", "mixtral-sharded-swa"])
def test_no_warning_for_other_shapes(tmp_path: Path, name: str) -> None:
    make_package(ORACLE / name, tmp_path / "p", PORTABLE_BOARD, scheme=Scheme.W4A16, prefill=3, **SHORT)
    for compiler in COMPILERS:
        compile_strictly(tmp_path / "p", compiler)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uneven") / "p"
    make_package(MIXTRAL, folder, scheme=Scheme.W8A8, prefill=4, **SHORT, **UNEVEN)
    return folder


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("even") / "p"
    make_package(MIXTRAL, folder, scheme=Scheme.W8A8, prefill=4, **SHORT)
    return folder


def test_equal_layers_are_one_function_in_a_loop(even: Path) -> None:
    source = (even / "src/model.c").read_text()
    assert [name for name in function_bodies(source) if name.startswith("layer_")] == ["layer_4", "layer_1"]
    assert "for (uint32_t i = 0; i < 2; i++) {" in function_bodies(source)["layers_4"]
    assert "layer_table[2]" in source and "num_experts[2] = {8, 8}" in source


def test_unequal_layers_are_two_functions(uneven: Path) -> None:
    source = (uneven / "src/model.c").read_text()
    names = [name for name in function_bodies(source) if re.fullmatch(r"layer(_\d+)+", name)]
    assert names == ["layer_4", "layer_1", "layer_2_4", "layer_2_1"]
    assert "uint32_t experts[6];" in source and "uint32_t experts[5];" in source
    assert "num_experts[2] = {6, 5}" in source
    calls = function_bodies(source)["layers_4"]
    assert calls.index("layer_4(") < calls.index("layer_2_4(") and "for" not in calls


def test_dropped_experts_leave_no_entry_in_a_table(even: Path, uneven: Path) -> None:
    def offsets(package: Path) -> list[int]:
        found = re.findall(r"\.experts = \{([\d, ]+)\}", (package / "src/model.c").read_text())
        return [int(number) for row in found for number in row.split(", ")]

    assert len(offsets(even)) == 16 and len(offsets(uneven)) == 11
    for package in (even, uneven):
        assert len(set(offsets(package))) == len(offsets(package)) and all(at % 16 == 0 for at in offsets(package))
        assert max(offsets(package)) < (package / "model.bin").stat().st_size
    assert "expert 5" not in "".join(texts(uneven)["src/model.c"])


def test_every_loop_has_a_constant_bound(even: Path) -> None:
    """Only the caller's own count of tokens, the copies that it makes, and what the router chose are not fixed."""
    bodies = function_bodies((even / "src/model.c").read_text())
    free = {"shakespeare_prefill", "mixtral_base_prefill", "canonicalise"}
    for name, body in bodies.items():
        for line in re.findall(r"\b(?:for|while) \(.*", body):
            constant = re.search(r"[a-z]\w* < (?:\d+|\(row \+ 1\) \* \d+|row \* \d+|[A-Z_]+(?: \* [A-Z_]+)?);", line)
            chosen = "i < count;" in line and "count = colibri_slots_of(" in body  # rows whose router chose an expert
            assert constant or chosen or name in free, f"{name}: {line}"
    assert {name for name in bodies if name in free} == {"mixtral_base_prefill", "canonicalise"}


@pytest.mark.parametrize("package", ["even", "uneven"])
def test_text_is_tidy(package: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(package)
    for name, text in texts(folder).items():
        assert text.endswith("\n") and not text.endswith("\n\n"), name
        assert "\r" not in text and "\t" not in text, name
        for number, line in enumerate(text.splitlines(), 1):
            assert line == line.rstrip(), f"{name}:{number} ends in a space"
            limit = 120 if name == "model.h" or name.startswith(("src/", "app/")) else 160
            assert len(line) <= limit or name.endswith(".json"), f"{name}:{number} has {len(line)} characters"
        assert "\n\n\n" not in text or not name.endswith((".c", ".h")), f"{name} has two empty lines in a row"


def test_no_file_mentions_a_folder_of_this_machine(even: Path) -> None:
    parts = [str(even), str(even.parent), str(ORACLE.parents[1]), str(Path.home()), "/tmp/"]
    for file in sorted(path for path in even.rglob("*") if path.is_file()):
        raw = file.read_bytes()
        for part in parts:
            assert part.encode() not in raw, f"{file.name} mentions {part}"


def test_public_names_carry_the_prefix(tmp_path: Path) -> None:
    make_package(MIXTRAL, tmp_path / "p", prefix="bird", **SHORT)
    source = (tmp_path / "p/src/model.c").read_text()
    public = re.findall(r"^(?!static|typedef|COLIBRI_KERNEL|struct)[a-z][\w ]*[ *](\w+)\(", source, re.M)
    assert public and all(name.startswith("bird_") for name in public)
    header = (tmp_path / "p/model.h").read_text()
    macros = set(re.findall(r"^#define (\w+)", header, re.M))
    assert macros and all(name.startswith("BIRD_") for name in macros)
    assert {"BIRD_VOCAB", "BIRD_CONTEXT", "BIRD_PREFILL", "BIRD_MEMORY_BYTES", "BIRD_MODEL_BYTES"} <= macros


def test_macros_say_what_package_json_says(tmp_path: Path) -> None:
    package = make_package(SENSOR, tmp_path / "p", batch=3, prefix="s")
    macros = dict(re.findall(r"^#define (\w+) +(\d+)", (tmp_path / "p/model.h").read_text(), re.M))
    assert macros["S_BATCH"] == "3" and macros["S_INPUTS"] == "13" and macros["S_OUTPUTS"] == "2"
    assert int(macros["S_MEMORY_BYTES"]) == package.memory.total
    assert int(macros["S_MODEL_BYTES"]) == package.model_bin_bytes == (tmp_path / "p/model.bin").stat().st_size
    assert macros["S_LAYERS"] == "1" and macros["S_TOP_K"] == "2"


def test_only_token_models_have_positions(tmp_path: Path) -> None:
    make_package(SENSOR, tmp_path / "sensor")
    make_package(MIXTRAL, tmp_path / "tokens", **SHORT)
    sensor_texts = texts(tmp_path / "sensor")
    assert [name for name in ("model.h", "src/model.c", "app/test.c") if "position" in sensor_texts[name]] == []
    assert "uint32_t position; " in (tmp_path / "tokens/src/model.c").read_text()
