"""Whatever happens to a file's bytes, the outcome is values or one line of BadInput."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from make_bad import CONFIG, INDEX, write_checkpoint, write_shards

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.config import Config, read_rope
from colibri.errors import BadInput

SMALL = {f"layers.{i}.w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3) for i in range(4)}
QUIET = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def outcome(folder: Path) -> str:
    """Return ``read`` or the refusal; any other exception passes through and fails the test."""
    try:
        checkpoint = Checkpoint.open(folder)
        for name in checkpoint.names():
            checkpoint.take(name, checkpoint.shape(name))
        checkpoint.licence()
    except BadInput as error:
        message = str(error)
        assert message.isprintable() and message.encode() and len(message) < 2000
        return message
    return "read"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_flips_and_cuts_of_a_single_file(name: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG, SMALL)
    file = tmp_path / name
    sound = file.read_bytes()
    rng = random.Random(11)
    outcomes = set()
    for _ in range(400):
        raw = bytearray(sound)
        for _ in range(rng.choice((0, 1, 1, 2, 8))):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        file.write_bytes(raw if rng.random() < 0.7 else raw[: rng.randrange(len(raw) + 1)])
        outcomes.add(outcome(tmp_path))
    assert "read" in outcomes and len(outcomes) > 10


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG, SMALL)
    file = tmp_path / "model.safetensors"
    sound = file.read_bytes()
    for length in range(len(sound)):
        file.write_bytes(sound[:length])
        assert outcome(tmp_path) != "read"
    file.write_bytes(sound + b"\0")
    assert "1 bytes after the last tensor" in outcome(tmp_path)


def test_flips_of_an_index(tmp_path: Path) -> None:
    write_shards(tmp_path)
    file = tmp_path / INDEX
    sound = file.read_bytes()
    rng = random.Random(12)
    for _ in range(150):
        raw = bytearray(sound)
        raw[rng.randrange(len(raw))] = rng.choice(b'./\\"{}[],:\x00\xffa0 ')
        file.write_bytes(raw)
        outcome(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@QUIET
@given(table=st.dictionaries(st.sampled_from(["k", "j", "rope_parameters", "rope_scaling", "rope_theta"]), json_values))
def test_accessors_on_any_value(table: dict[str, object]) -> None:
    config = Config("config.json", table)
    calls = (
        lambda: config.integer("k|j"),
        lambda: config.number("k|j"),
        lambda: config.boolean("k"),
        lambda: config.text("k", choices=("a",)),
        lambda: config.integers("k"),
        lambda: config.numbers("k"),
        lambda: config.texts("k"),
        lambda: config.section("k"),
        lambda: read_rope(config),
    )
    for call in calls:
        try:
            call()
        except BadInput as error:
            assert str(error).isprintable()


@QUIET
@given(header=st.dictionaries(st.text(max_size=6), json_values, max_size=3), data=st.binary(max_size=16))
def test_any_json_as_header(header: dict[str, object], data: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    outcome(tmp_path)


entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "F64", "I64", "F8_E4M3", "F4", "BOOL", "C64"]),
        "shape": st.lists(st.integers(0, 3), max_size=3),
        "data_offsets": st.lists(st.integers(0, 24), min_size=2, max_size=2),
    }
)


@QUIET
@given(header=st.dictionaries(st.sampled_from("abc"), entries, max_size=3), data=st.binary(max_size=48))
def test_any_layout(header: dict[str, object], data: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    outcome(tmp_path)
