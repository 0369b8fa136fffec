"""Values come out as the safetensors library reads them, and only as finite floats."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from make_bad import CONFIG, Arrays, tiny_mixtral, write_arrays, write_checkpoint, write_raw, write_shards

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms import open_form
from colibri.errors import BadInput

FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)


def random_arrays(seed: int = 3) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for index in range(40):
        shape = tuple(int(size) for size in rng.integers(0, 7, size=index % 4))
        arrays[f"t.{index}"] = np.asarray(rng.standard_normal(shape)).astype(FLOATS[index % len(FLOATS)])
    return arrays


def test_every_tensor_equals_the_library(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    arrays = random_arrays()
    file = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays, file)
    checkpoint = Checkpoint.open(tmp_path)
    library = safetensors.numpy.load_file(file)
    assert set(checkpoint.names()) == set(library) == set(arrays)
    for name in checkpoint.names():
        found = checkpoint.take(name, library[name].shape)
        assert found.dtype == np.float32 and found.flags.c_contiguous and found.flags.writeable
        assert found.shape == arrays[name].shape
        assert found.tobytes() == library[name].astype(np.float32).tobytes()
    assert checkpoint.finish() == []


def test_fp32_bits_survive(tmp_path: Path) -> None:
    bits = np.array([0, 0x80000000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x3F800001], np.uint32)
    write_checkpoint(tmp_path, arrays={"bits": bits.view(np.float32)})
    taken = Checkpoint.open(tmp_path).take("bits", (6,))
    assert taken.view(np.uint32).tolist() == bits.tolist()


def test_every_bf16_and_f16_value_is_exact(tmp_path: Path) -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    arrays = {"brain": patterns.view(ml_dtypes.bfloat16), "half": patterns.view(np.float16)}
    arrays = {name: array[np.isfinite(array.astype(np.float32))] for name, array in arrays.items()}
    write_checkpoint(tmp_path, arrays=arrays)
    checkpoint = Checkpoint.open(tmp_path)
    brain = checkpoint.take("brain", arrays["brain"].shape)
    assert (brain.view(np.uint32) == arrays["brain"].view(np.uint16).astype(np.uint32) << 16).all()
    half = checkpoint.take("half", arrays["half"].shape)
    assert half.astype(np.float16).tobytes() == arrays["half"].tobytes()


def refusal(folder: Path, name: str) -> str:
    checkpoint = Checkpoint.open(folder)
    with pytest.raises(BadInput) as caught:
        checkpoint.take(name, checkpoint.shape(name))
    return str(caught.value)


def test_rows_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
    broken = fused.copy()
    broken[4, 0, 0] = np.nan
    arrays: Arrays = {"brain": fused.astype(ml_dtypes.bfloat16), "broken": broken, "scalar": np.array(2.0, np.float32)}
    write_checkpoint(tmp_path, arrays=arrays)
    spans = []
    whole = LocalFile.read
    monkeypatch.setattr(LocalFile, "read", lambda self, begin, count: spans.append(count) or whole(self, begin, count))
    tensors = open_form(tmp_path).tensors
    spans.clear()
    flat = fused.reshape(30, 7)
    assert np.array_equal(tensors.rows("brain", 13, 15), flat[13:15]) and spans == [2 * 7 * 2]
    assert np.array_equal(tensors.rows("brain", 18, 30), flat[18:]) and spans[1:] == [12 * 7 * 2]
    assert tensors.rows("brain", 30, 30).shape == (0, 7)
    assert np.array_equal(tensors.rows("broken", 0, 24), flat[:24])
    with pytest.raises(BadInput, match="1 of 210 values are not finite"):
        tensors.rows("broken", 24, 25)
    assert tensors.rows("scalar", 0, 1).tolist() == [2.0]
    assert tensors.read_stored("brain", slice(0, 1)).dtype == ml_dtypes.bfloat16
    assert tensors.nbytes("brain") == fused.size * 2


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    bad = np.array([1, np.nan, np.inf, -np.inf, np.nan], np.float32)
    arrays: Arrays = {"bad32": bad, "bad16": bad.astype(np.float16), "brain": bad.astype(ml_dtypes.bfloat16)}
    write_checkpoint(tmp_path, arrays=arrays | {"wide": np.array([1e300, 1.0])})
    for name in arrays:
        assert f"{name}: 4 of 5 values are not finite (2 NaN, 2 infinite)" in refusal(tmp_path, name)
    assert "wide: 1 of 2 values are not finite (0 NaN, 1 infinite in fp32)" in refusal(tmp_path, "wide")


def test_other_dtypes_are_refused_only_when_taken(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, CONFIG, {"ids": np.arange(3), "bytes": np.arange(3, dtype=np.uint8)})
    assert "ids: dtype I64 is not a float weight; expected F32, F16, BF16, F64" in refusal(tmp_path, "ids")
    assert "bytes: dtype U8 is not a float weight" in refusal(tmp_path, "bytes")
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.dtype("ids") == "I64"
    assert checkpoint.drop("ids", "positions") == checkpoint.drop("bytes", "packed") == 1
    assert [note.reason for note in checkpoint.finish()] == ["positions", "packed"]
    entry = {"dtype": "F8_E5M2", "shape": [4], "data_offsets": [0, 4]}
    write_raw(tmp_path / "model.safetensors", {"small": entry}, bytes(4))
    assert "small: dtype F8_E5M2 is not read yet" in refusal(tmp_path, "small")


def test_file_replaced_after_opening(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, arrays={"a": np.ones(4, np.float32)})
    checkpoint = Checkpoint.open(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    write_arrays(tmp_path / "model.safetensors", {"a": np.ones(5, np.float32)})
    with pytest.raises(BadInput, match="changed since it was opened"):
        checkpoint.take("a", (4,))


def test_file_deleted_after_opening(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    checkpoint = Checkpoint.open(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        checkpoint.take("model.norm.weight", (16,))


def test_a_fingerprint_is_of_what_is_stored_not_of_its_files(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    expert, router = (f"model.layers.1.block_sparse_moe.{name}.weight" for name in ("experts.2.w2", "gate"))

    def fingerprint(name: str, **changed: np.ndarray) -> str:
        write_checkpoint(tmp_path / name, CONFIG, {**arrays, **changed})
        return Checkpoint.open(tmp_path / name).fingerprint()

    whole = fingerprint("a")
    assert whole == fingerprint("b") and re.fullmatch("[0-9a-f]{64}", whole)
    write_shards(tmp_path / "shards")
    assert Checkpoint.open(tmp_path / "shards").fingerprint() == whole
    others = {
        fingerprint("swapped", **{router: arrays[router][::-1].copy()}),
        fingerprint("tuned", **{expert: arrays[expert] * np.float32(1.001)}),
        fingerprint("wider", **{expert: arrays[expert].astype(np.float64)}),
    }
    assert len(others | {whole}) == 4
