"""`package.json` and test vectors that somebody edited, cut or replaced: one line, exit code 5."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_models import make_package, sensor

from colibri.cli import main
from colibri.errors import BadInput
from colibri.package import load_package
from colibri.vectors import Answer, Case, load_vectors


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine") / "p"
    make_package(sensor("top1-e3-tiny"), folder)
    return folder


@pytest.fixture
def package(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "p"))


def refused(folder: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_package(folder)
    text = str(caught.value)
    assert text.isprintable() and len(text) < 900
    return text


def set_at(*path: str | int) -> Callable[[Any, Any], None]:
    def change(table: Any, value: Any) -> None:
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("schema",), 1, "package schema 1, this Colibri reads 2; generate again"),
        (("schema",), "1", "package.json is damaged: Expected `int`, got `str`"),
        (("prefix",), "a b", "prefix 'a b' cannot begin C names"),
        (("prefix",), "x" * 9999, "prefix 'xxx"),
        (("threads",), -1, "threads is -1, expected 0 to 64"),
        (("threads",), 65, "threads is 65, expected 0 to 64"),
        (("threads",), "2", "package.json is damaged: Expected `int`, got `str`"),
        (("optimise",), "fast", "package.json is damaged: Invalid enum value 'fast'"),
        (("name",), "\x1b[31m", "name has characters that do not print"),
        (("memory", "blocks", 0, "spans", 1, "kind"), "heap", "spans[1].kind is 'heap', expected 'context' or"),
        (("board", "memory", 0, "cost"), -1, "memory 'image'.cost is -1, expected 1 to"),
        (("batch",), 0, "batch is 0, expected 1 to 1024"),
        (("batch",), -1, "batch is -1"),
        (("batch",), 10**12, "batch is 1000000000000"),
        (("batch",), 10**30, f"batch is {10**30}, expected 1 to 1024"),
        (("batch",), None, "package.json is damaged: Expected `int`, got `null`"),
        (("prefill",), -1, "prefill is -1, expected 0 to 1024"),
        (("context",), -1, "context is -1, expected 0 to "),
        (("board", "memory", 0, "length"), -1, "board.memory 'image'.length is -1"),
        (("model", "kind"), "words", "model.kind is 'words', expected 'tokens' or 'samples'"),
        (("model", "kind"), "tokens", "model.inputs is 13, expected 0"),
        (("model", "outputs"), 0, "model.outputs is 0"),
        (("model", "inputs"), 1 << 40, "model.inputs is 1099511627776"),
        (("model", "experts"), [], "model.experts is empty"),
        (("model", "experts", 0), -3, "model.experts[0] is -3"),
        (("model", "top_k"), 0, "model.top_k is 0"),
        (("model", "labels", "outputs"), ["one"], "model.labels.outputs names 1, but there are 2"),
        (("model", "labels", "middles"), [], "model.labels has 'middles', expected 'inputs' and 'outputs'"),
        (("model_bin_bytes",), 0, "model_bin_bytes is 0"),
        (("sections", 1, "offset"), -16, "sections[1].offset is -16"),
        (("sections", 1, "bytes"), 1 << 33, "sections[1].bytes is 8589934592"),
        (("memory", "total"), -1, "memory.total is -1"),
        (("memory", "total"), 1 << 20, "memory.total is 1048576, expected 352"),
        (("memory", "blocks", 0, "arena"), 1 << 31, "memory.blocks[0].total is 352, expected "),
        (("memory", "blocks", 0, "region"), "x", "memory.blocks[0].region is 'x', which is no RAM of the board"),
        (("memory",), {"blocks": [], "total": 0}, "memory.blocks is empty"),
        (
            ("hot_weights",),
            {"region": "x", "abi_hash": "", "bytes": 1, "sections": []},
            "hot_weights.region is 'x', which is no flash of the board",
        ),
        (("memory", "blocks", 0, "name"), "a b", "memory.blocks[0].name is 'a b'"),
        (("memory", "blocks", 0, "spans", 0, "offset"), 1 << 31, "spans[0].offset is 2147483648"),
        (("memory", "blocks", 0, "spans", 0, "last"), 1 << 20, "memory.blocks[0].spans[0].last is 1048576"),
        (("memory", "blocks", 0, "spans", 1, "name"), "q\nshell id", "spans[1].name is 'q\\nshell id'"),
        (("memory", "blocks", 0, "spans", 1, "views", 0, "offset"), 1 << 20, "spans[1].views[0].offset is 1048576"),
        (("memory", "blocks", 0, "spans", 1, "views", 0, "type"), "f64", "spans[1].views[0].type is 'f64'"),
        (("memory", "blocks", 0, "spans", 1, "views", 0, "shape"), [], "spans[1].views[0].shape is []"),
        (("memory", "blocks", 0, "spans", 1, "views", 0, "name"), "x", "spans[1].views[0].name is 'x'"),
        (("ops", 0, "name"), "q; shell id", "ops[0].name is 'q; shell id'"),
        (("ops", 0, "block"), "$(id)", "ops[0].block is '$(id)'"),
        (("fast_code",), {"region": "ram", "functions": ["*) *(.text"]}, "fast_code.functions[0] is '*) *(.text'"),
        (("fast_code",), {"region": "x", "functions": []}, "fast_code.region is 'x', which is no RAM of the board"),
        (("code_estimate", "code"), -1, "code_estimate.code is -1"),
        (("ops", 0, "layer"), -2, "ops[0].layer is -2"),
        (("ops", 0, "repeats"), 0, "ops[0].repeats is 0"),
        (("ops", 0, "macs"), -1, "ops[0].macs is -1"),
        (("board", "stack"), -16, "board.stack: -16 bytes"),
        (("board", "kernels"), ["portable/../portable", "portable"], "no kernel folder 'portable/../portable'"),
        (("board", "toolchain", "flags"), ["-O2; id"], "'-O2; id' is no compiler option"),
        (("compiler", "objdump"), "shutdown", "compiler.objdump is 'shutdown', which is no disassembler"),
        (("compiler", "cc"), ["gcc; id"], "compiler.cc is 'gcc; id', which names no program"),
        (("compiler", "ar"), [], "compiler.ar is '', which names no program"),
        (("board", "emulators", 1, "args"), ["a\0b"], "board.emulators[1].args[0]: has the character \\x00"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_values_that_cannot_be_meant(package: Path, path: tuple[str | int, ...], value: Any, words: str) -> None:
    table = json.loads((package / "package.json").read_text())
    set_at(*path)(table, value)
    (package / "package.json").write_text(json.dumps(table))
    assert words in refused(package)


@pytest.mark.parametrize("key", ["schema", "board", "model", "memory", "prefix", "sections"])
def test_keys_that_are_missing(package: Path, key: str) -> None:
    table = json.loads((package / "package.json").read_text())
    del table[key]
    (package / "package.json").write_text(json.dumps(table))
    assert f"package.json is damaged: Object missing required field `{key}`" in refused(package)


def test_another_version_with_other_keys(package: Path) -> None:
    (package / "package.json").write_text('{"schema": 7, "all": "new"}')
    assert refused(package).endswith("package schema 7, this Colibri reads 2; generate again")


@pytest.mark.parametrize("kind", ["cut", "empty", "bytes", "deep", "folder", "link", "zero", "pipe", "long"])
def test_what_is_no_package_json(package: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = package / "package.json"
    raw = file.read_bytes()
    file.unlink()
    if kind in ("link", "zero"):
        file.symlink_to("/dev/zero" if kind == "zero" else "nowhere")
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        content = {"cut": raw[:500], "empty": b"", "bytes": b"\xff" + raw, "deep": b'{"a":' * 9999, "long": raw}
        file.write_bytes(content[kind] + (b" " * (65 << 20) if kind == "long" else b""))
    for command in (["report"], ["run", "-n", "1"], ["test"], ["profile"], ["report", "--html"]):
        assert main([command[0], str(package), *command[1:]]) == 5
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "package.json: " in err


@pytest.mark.parametrize("kind", ["cut", "empty", "folder", "absent", "pipe"])
def test_what_are_no_vectors(package: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = package / "test" / "vectors.msgpack"
    raw = file.read_bytes()
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind != "absent":
        file.write_bytes(raw[:100] if kind == "cut" else b"")
    assert main(["test", str(package), "--emulator", "native"]) == 5
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "test/vectors.msgpack: " in err


@pytest.mark.parametrize("name", ["package.json", "vectors.msgpack"])
def test_a_file_that_may_not_be_read(
    name: str, package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith(name):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert main(["test", str(package), "--emulator", "native"]) == 5
    err = capsys.readouterr().err
    assert err.endswith(f"{name}: cannot be read: Permission denied\n") and err.count("\n") == 1


@pytest.mark.parametrize(
    "case",
    [
        Case("t", "Z", b"", (Answer(0, b""),)),
        Case("t", "", b"", (Answer(0, b""),)),
        Case("t", "VV", b"", (Answer(0, b""),)),
        Case("t", "é", b"", (Answer(0, b""),)),
        Case("t", "F", b"abc", (Answer(0, b""),)),
        Case("t", "F", b"", (Answer(0, b"abc"),)),
        Case("t", "F", b"", (Answer(1 << 31, b""),)),
        Case("t", "F", b"", (Answer(-(1 << 40), b""),)),
        Case("\x1b[31m", "F", b"", (Answer(0, b""),)),
    ],
    ids=str,
)
def test_cases_that_the_protocol_cannot_carry(case: Case) -> None:
    with pytest.raises(BadInput, match="there: test vectors are damaged: case '"):
        load_vectors(msgspec.msgpack.encode([case]), "there")


def test_vectors_nested_without_end() -> None:
    with pytest.raises(BadInput, match="test vectors are damaged: "):
        load_vectors(b"\x91\x84\xa5title" + b"\x91" * 100_000, "there")


def test_a_package_json_that_is_not_of_the_image(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sound in itself, but not what was built: the rows of the report cannot be right."""
    assert main(["build", str(sensor("top1-e3-tiny")), "--board", "stm32f405", "-o", str(package)]) == 0
    capsys.readouterr()
    table = json.loads((package / "package.json").read_text())
    for path, value, words in (
        (("prefix",), "other", "the image has no symbol other_bin; build the package again"),
        (("board", "memory", 0, "origin"), 0, "which is in no region of the board"),
        (("model_bin_bytes",), 1 << 20, "is shorter than the 1,048,576 bytes that package.json says"),
    ):
        edited = json.loads(json.dumps(table))
        set_at(*path)(edited, value)
        (package / "package.json").write_text(json.dumps(edited))
        assert main(["report", str(package)]) == 5
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1
