"""The header check of GGUF names what is wrong, and reads no more than it must."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U8, U16, U32, U64, gguf, info, key, small_llama, text, value

from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms.gguf_header import Header, read_header
from colibri.errors import BadInput

KEY = key("general.architecture", STRING, "llama")
TENSOR = info("w", (8,), 0, 0)
HUGE = 2**64 - 1
LIE = struct.pack("<Q", HUGE)


def read(tmp_path: Path, raw: bytes) -> Header:
    file = tmp_path / "x.gguf"
    file.write_bytes(raw)
    return read_header(LocalFile(file))


def test_sound_file(tmp_path: Path) -> None:
    keys = [
        KEY,
        key("a.number", I32, -3),
        key("a.flag", BOOL, 1),
        key("a.list", ARRAY, (STRING, ["x", "", "long " * 100])),
        key("a.sizes", ARRAY, (U16, [1, 2, 3])),
        key("general.alignment", U32, 64),
    ]
    raw = gguf(keys, [info("b", (4, 2), 0, 64), info("a", (3,), 1, 0)], bytes(128), alignment=64)
    header = read(tmp_path, raw)
    assert header.values["a.number"] == -3 and header.values["a.flag"] is True
    assert header.items("a.list") == ["x", "", "long " * 100] and header.items("a.sizes") == [1, 2, 3]
    assert header.items("a.absent") == []
    assert {name: (info.form.name, info.shape) for name, info in header.tensors.items()} == {
        "a": ("F16", (3,)),
        "b": ("F32", (2, 4)),
    }
    assert list(header.tensors) == ["a", "b"]  # by their bytes
    assert header.tensors["b"].begin - header.tensors["a"].begin == 64


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("end", [b"", b"\0" * 20])
def test_version_and_padding_at_the_end(tmp_path: Path, version: int, end: bytes) -> None:
    raw = gguf([KEY], [info("w", (3,), 0, 0)], bytes(12) + end, version=version)
    assert list(read(tmp_path, raw).tensors) == ["w"]


BAD = {
    "nothing": (b"", "is not GGUF"),
    "only the magic": (b"GGUF", "version needs 4 bytes"),
    "another format": (b"ggml" + bytes(40), "is not GGUF"),
    "pickle": (b"PK\3\4" + bytes(40), "is not GGUF"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    "version 1": (gguf([], [], version=1), "version 1, which is not read; convert the model anew"),
    "version 4": (gguf([], [], version=4), "version 4"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + bytes(64), "big-endian"),
    "no counts": (b"GGUF" + struct.pack("<I", 3), "number of tensors needs 8 bytes"),
    "tensors that are not there": (gguf([KEY], [], counts=(1000, 1)), "number of tensors is 1000, but only"),
    "2^64 tensors": (gguf([KEY], [], counts=(HUGE, 1)), f"number of tensors is {HUGE}, more than"),
    "2^64 keys": (gguf([KEY], [], counts=(0, HUGE)), f"number of keys is {HUGE}, more than"),
    "keys that are not there": (gguf([KEY], [], counts=(0, 60)), "number of keys is 60, but only"),
    "fewer keys than there are": (gguf([KEY, KEY], [TENSOR], bytes(32), counts=(1, 1)), "dimensions"),
    "key of 2^64 bytes": (gguf([LIE + bytes(64)], []), f"a key has {HUGE} bytes, more than"),
    "key that goes on behind the file": (gguf([struct.pack("<Q", 60000) + b"abc" * 9], []), "needs 60000 bytes"),
    "key that is not UTF-8": (gguf([key(b"\xff\xfe", U32, 1)], []), "a key is not UTF-8"),
    "key twice": (gguf([KEY, KEY], []), "general.architecture is there twice"),
    "unknown type": (gguf([text("a") + struct.pack("<I", 13) + bytes(32)], []), "unknown type 13"),
    "string of 2^64 bytes": (
        gguf([text("a") + struct.pack("<I", STRING) + LIE + bytes(32)], []),
        f"value of a has {HUGE} bytes",
    ),
    "string that is not UTF-8": (gguf([key("a", STRING, b"\xc3")], []), "value of a is not UTF-8"),
    "boolean of 2": (gguf([key("a", BOOL, 2)], []), "value of a is 2, expected a boolean"),
    "array of arrays": (gguf([key("a", ARRAY, (ARRAY, [(U8, [1])]))], []), "array of arrays"),
    "array of an unknown type": (gguf([key("a", ARRAY, (99, []))], []), "unknown type 99"),
    "array of 2^64 numbers": (
        gguf([text("a") + struct.pack("<IIQ", ARRAY, U64, HUGE) + bytes(64)], []),
        f"number of items of a is {HUGE}, more than",
    ),
    "array of more numbers than bytes": (
        gguf([text("a") + struct.pack("<IIQ", ARRAY, U64, 2000000) + bytes(64)], []),
        "number of items of a is 2000000, but only",
    ),
    "array with a string of 2^64 bytes": (
        gguf([text("a") + struct.pack("<IIQ", ARRAY, STRING, 3) + text("x") + LIE + bytes(64)], []),
        "a string of a needs",
    ),
    "array that ends the file": (
        gguf([text("a") + struct.pack("<IIQ", ARRAY, STRING, 2) + text("x" * 60)], [])[:-32],
        "bytes",
    ),
    "alignment of 24": (gguf([key("general.alignment", U32, 24)], []), "general.alignment is '24'"),
    "alignment of 0": (gguf([key("general.alignment", U32, 0)], []), "general.alignment is '0'"),
    "alignment of 2^31": (gguf([key("general.alignment", U32, 1 << 31)], []), "expected a power of two"),
    "alignment in words": (gguf([key("general.alignment", STRING, "32")], []), "general.alignment"),
    "name of 300 bytes": (gguf([KEY], [info("w" * 300, (8,), 0, 0)], bytes(32)), "has 300 bytes, more than 256"),
    "tensor twice": (gguf([KEY], [TENSOR, TENSOR], bytes(32)), "tensor 'w' is there twice"),
    "no dimension": (gguf([KEY], [info("w", (), 0, 0)], bytes(32)), "has 0 dimensions"),
    "five dimensions": (gguf([KEY], [info("w", (1,) * 5, 0, 0)], bytes(32)), "has 5 dimensions"),
    "2^32 dimensions": (
        gguf([KEY], [text("w") + struct.pack("<I", 2**32 - 1) + bytes(64)], bytes(32)),
        "dimensions, expected 1 to 4",
    ),
    "extent of 0": (gguf([KEY], [info("w", (0, 4), 0, 0)], bytes(32)), "has the shape 4×0 in F32"),
    "sizes that overflow": (
        gguf([KEY], [info("w", (2**32, 2**32, 4), 0, 0)], bytes(32)),
        "which is not in the file",
    ),
    "more values than bytes": (gguf([KEY], [info("w", (2000,), 0, 0)], bytes(32)), "which is not in the file"),
    "unknown number format": (gguf([KEY], [info("w", (8,), 4, 0)], bytes(32)), "unknown number format 4"),
    "format that is not read": (gguf([KEY], [info("w", (256,), 16, 0)], bytes(96)), "is IQ2_XXS, which is not read"),
    "integers": (gguf([KEY], [info("w", (8,), 26, 0)], bytes(32)), "is I32, which is not read"),
    "rows that end within a block": (
        gguf([KEY], [info("w", (33, 2), 8, 0)], bytes(96)),
        "has rows of 33 values, no multiple of the 32 of Q8_0",
    ),
    "offset within the alignment": (gguf([KEY], [info("w", (8,), 0, 16)], bytes(64)), "begins at 16, no multiple"),
    "offset behind the file": (gguf([KEY], [info("w", (8,), 0, 2**63)], bytes(32)), "belong to no tensor"),
    "hole": (gguf([KEY], [TENSOR, info("v", (8,), 0, 64)], bytes(96)), "32 bytes before tensor 'v' belong"),
    "hole before the first": (gguf([KEY], [info("w", (8,), 0, 32)], bytes(64)), "32 bytes before tensor 'w' belong"),
    "overlap": (gguf([KEY], [info("w", (16,), 0, 0), info("v", (8,), 0, 32)], bytes(96)), "'w' and 'v' overlap"),
    "same place": (gguf([KEY], [TENSOR, info("v", (8,), 0, 0)], bytes(32)), "overlap"),
    "truncated": (gguf([KEY], [info("w", (64,), 0, 0)], bytes(248)), "truncated: 8 bytes of tensor 'w' are missing"),
    "bytes behind the end": (gguf([KEY], [TENSOR], bytes(65)), "33 bytes behind the last tensor"),
    "hostile name": (gguf([KEY], [info("a\n*/\x1b[2J../w", (8,), 4, 0)], bytes(32)), r"'a\n*/\x1b[2J../w'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    raw, expected = BAD[name]
    with pytest.raises(BadInput) as caught:
        read(tmp_path, raw)
    said = str(caught.value)
    assert expected in said and said.isprintable() and "x.gguf" in said


def test_every_cut_of_a_whole_file_is_refused(tmp_path: Path) -> None:
    raw = small_llama()
    whole = read(tmp_path, raw)
    last = max(info.begin + info.nbytes for info in whole.tensors.values())
    for length in (*range(0, 600, 23), *range(600, last, 311)):
        with pytest.raises(BadInput):
            read(tmp_path, raw[:length])


def test_every_flipped_byte_is_refused_or_read(tmp_path: Path) -> None:
    raw = small_llama()
    for at in range(0, 900, 7):
        try:
            read(tmp_path, raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :])
        except BadInput as error:
            assert str(error).isprintable()


def test_a_vocabulary_is_stepped_over_in_little_memory(tmp_path: Path) -> None:
    """Strings become objects only when somebody asks for them."""
    words = value(ARRAY, (STRING, [f"{number:05}" for number in range(30_000)]))
    raw = gguf([KEY, text("tokenizer.ggml.tokens") + struct.pack("<I", ARRAY) + words], [TENSOR], bytes(32))
    (tmp_path / "x.gguf").write_bytes(raw)
    tracemalloc.start()
    header = read_header(LocalFile(tmp_path / "x.gguf"))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert len(header.items("tokenizer.ggml.tokens")) == 30_000


def test_items_of_something_else(tmp_path: Path) -> None:
    header = read(tmp_path, gguf([KEY, key("a", F32, 1.0), key("b", ARRAY, (STRING, [b"\xff"]))], [TENSOR], bytes(32)))
    for name, expected in {"a": "expected an array", "b": "is not UTF-8"}.items():
        with pytest.raises(BadInput, match=expected):
            header.items(name)
