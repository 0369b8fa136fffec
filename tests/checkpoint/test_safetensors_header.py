"""The header check names what is wrong with a safetensors file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_bad import Arrays, data_of, header_of, write_arrays, write_raw

from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms.safetensors_header import read_header
from colibri.errors import BadInput

ARRAYS: Arrays = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(4, dtype=np.float16),
    "s": np.array(2.0),
}


def refusal(file: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_header(LocalFile(file))
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_sound_file(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    write_arrays(file, ARRAYS)
    header = read_header(LocalFile(file))
    assert list(header.tensors) == ["a", "b", "s"]
    assert header.tensors["a"].dtype == "F32" and header.tensors["a"].shape == (2, 3)
    assert header.tensors["s"].shape == () and (header.tensors["s"].begin, header.tensors["s"].end) == (32, 40)
    assert header.metadata == {"format": "np"}


def _edited(tensor: str, **changes: object) -> dict[str, Any]:
    header = header_of(ARRAYS)
    header[tensor] |= changes
    return header


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (_edited("a", shape=[2, 4]), "tensor 'a' has 24 bytes, but its shape 2×4 in F32 takes 32"),
        (_edited("a", shape=[2**40, 2**40, 2**40]), "tensor 'a' has 24 bytes, but its shape"),
        (_edited("a", shape=[2, -3]), "tensor 'a' has a shape that is not"),
        (_edited("a", shape=[2, True]), "tensor 'a' has a shape that is not"),
        (_edited("a", shape=[1] * 9), "at most 8 sizes"),
        (_edited("a", shape=6), "tensor 'a' has a shape that is not"),
        (_edited("a", dtype="F31"), "tensor 'a' has the unknown dtype 'F31'"),
        (_edited("a", dtype=None), "tensor 'a' has no dtype"),
        (_edited("a", data_offsets=[24, 0]), "tensor 'a' has data_offsets that are not"),
        (_edited("a", data_offsets=[0, 24, 48]), "tensor 'a' has data_offsets that are not"),
        (_edited("b", data_offsets=[16, 24]), "tensors 'a' and 'b' overlap"),
        (_edited("b", data_offsets=[23, 31]), "tensors 'a' and 'b' overlap"),
        (_edited("b", data_offsets=[25, 33]), "1 bytes before tensor 'b' belong to no tensor"),
        (_edited("s", data_offsets=[40, 48]), "8 bytes before tensor 's' belong to no tensor"),
        ({"__metadata__": {"k": 1}}, "__metadata__.k is a number, expected a string"),
        ({"__metadata__": []}, "__metadata__ is a list, expected an object"),
        ({"a": [1]}, "tensor 'a' is a list in the header"),
        ({}, "40 bytes after the last tensor belong to no tensor"),
        ("[]", "holds a JSON list"),
        ("{", "is not JSON: line 1"),
        ('{"a": {"dtype": "F32", "dtype": "F32"}}', "the name 'dtype' stands twice"),
        ('{"a": 1, "a": 1}', "the name 'a' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": {"dtype": "F32", "shape": [' + "9" * 30 + "]}}", "is too large"),
    ],
)
def test_damaged_header(header: dict[str, Any] | str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    write_raw(file, header, data_of(ARRAYS))
    assert words in refusal(file)


def test_damaged_file(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    assert "no such file" in refusal(file)
    file.write_bytes(b"")
    assert "too short for safetensors: 0 bytes" in refusal(file)
    file.write_bytes(b"\1\0\0\0\0\0\0")
    assert "too short for safetensors: 7 bytes" in refusal(file)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "Git LFS pointer" in refusal(file)
    file.write_bytes(struct.pack("<Q", 100) + b"{}")
    assert "header longer than the file: it says 100 bytes, 2 are there" in refusal(file)
    with file.open("wb") as sparse:
        sparse.write(struct.pack("<Q", 100_000_001))
        sparse.truncate(100_000_100)
    assert "header of 100000001 bytes, more than" in refusal(file)
    file.unlink()
    file.mkdir()
    assert "is not a file" in refusal(file)


@pytest.mark.parametrize("cut", [1, 8, 9, 39])
def test_truncated_data_names_the_first_tensor_cut(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    write_raw(file, header_of(ARRAYS), data_of(ARRAYS)[:-cut])
    first = "s" if cut <= 8 else "b" if cut <= 16 else "a"
    assert f"the data has {40 - cut} bytes, the header says 40; tensor '{first}'" in refusal(file)


def test_names_are_printed_harmlessly(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    name = "\x1b[31m\ud800\n" + "n" * 1000
    write_raw(file, json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}), bytes(8))
    message = refusal(file)
    assert message.isprintable() and message.encode() and len(message) < 500
