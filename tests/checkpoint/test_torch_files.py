"""Files that PyTorch wrote (`ci/torch-files`): every value, whatever view of whatever storage it is."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from make_hostile import group, name, text, torch_zip, write_torch
from small_models import load_graph

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.forms import open_form
from colibri.checkpoint.source import Tensors
from colibri.errors import BadInput
from colibri.graph.interpret import Reference

FILES = Path(__file__).parent / "torch"
INTEGERS = {"long": "I64", "int": "I32", "bool": "BOOL"}


def values_of(tensors: Tensors, name: str, rows: slice | None = None) -> np.ndarray:
    """A tensor, or entries of its outermost axis, as fp32."""
    return np.asarray(tensors.read_stored(name, rows), np.float32)


@pytest.mark.parametrize("name", ["views.pt", "protocol-4.pt"])
def test_every_view(name: str) -> None:
    tensors = open_form(FILES / name).tensors
    with np.load(FILES / "views.npz") as expected:
        assert set(tensors.names()) == set(expected.files)
        for tensor, values in expected.items():
            assert tensors.shape(tensor) == values.shape
            if tensor in INTEGERS:
                assert tensors.dtype(tensor) == INTEGERS[tensor]
                assert np.array_equal(tensors.read_stored(tensor), values.astype(tensors.read_stored(tensor).dtype))
                continue
            assert np.array_equal(values_of(tensors, tensor), values), tensor
            for row in range(len(values)) if values.ndim else ():
                assert np.array_equal(values_of(tensors, tensor, slice(row, row + 1)), values[row : row + 1]), tensor
    assert tensors.dtype("brain") == "BF16" and tensors.dtype("float8") == "F8_E4M3"
    assert tensors.nbytes("slice") == 2 * 4 * 3 * 4


@pytest.mark.parametrize("name", ["training.pt", "parallel.pth", "pytorch_model.bin.index.json"])
def test_where_the_weights_may_be(name: str) -> None:
    opened = open_form(FILES / name)
    with np.load(FILES / "model.npz") as expected:
        assert set(opened.tensors.names()) == set(expected.files)
        for tensor, values in expected.items():
            assert values_of(opened.tensors, tensor).tobytes() == values.tobytes()
    beside = {"optimizer", "step"} if name == "training.pt" else set()
    assert set(opened.set_aside) == beside


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "before-1.6.pt",
            "is a pickle of PyTorch before 1.6, which is not read; convert it where you trust it",
        ),
        ("object.pt", "its pickle asks for 'torch.nn.modules.container.Sequential', which is not a part of weights"),
        ("program.pt", "is a program of TorchScript; save the state_dict() of the model"),
    ],
)
def test_what_is_refused(name: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_form(FILES / name)
    assert words in str(caught.value)


def test_a_model_in_this_form(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    write_checkpoint(tmp_path / "other", CONFIG, arrays)
    write_torch(tmp_path / "pytorch_model.bin", arrays)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    ids = np.arange(9) * 3 % 40
    paths = tmp_path / "pytorch_model.bin", tmp_path / "other"
    mine, other = (Reference(load_graph(path)).extend(ids, all_rows=True) for path in paths)
    assert np.array_equal(mine, other)
    with pytest.raises(BadInput) as caught:
        open_form(tmp_path)
    assert "only a pickle ('pytorch_model.bin')" in str(caught.value)
    assert "give the file itself, of which nothing is run" in str(caught.value)


def test_a_shard_that_is_not_in_the_index(tmp_path: Path) -> None:
    shutil.copytree(FILES, tmp_path / "m")
    second = tmp_path / "m/pytorch_model-00002-of-00002.bin"
    second.write_bytes((tmp_path / "m/pytorch_model-00001-of-00002.bin").read_bytes())
    with pytest.raises(BadInput, match=r"tensor '0\.weight' is in 'pytorch_model-00001-of-00002\.bin' and in"):
        open_form(tmp_path / "m/pytorch_model.bin.index.json")
    second.unlink()
    with pytest.raises(BadInput, match="names 1 file"):
        open_form(tmp_path / "m/pytorch_model.bin.index.json")


def test_no_pickle_runs(tmp_path: Path) -> None:
    """What Python's own reader would do on loading does not happen here."""
    witness = tmp_path / "witness"
    pickled = name("posix", "system") + group(text(f"touch {witness}")) + b"R."
    torch_zip(tmp_path / "evil.pt", pickled)
    pickle.loads(pickled)
    assert witness.exists()
    witness.unlink()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=r"asks for 'posix\.system'"):
        open_form(tmp_path / "evil.pt")
    assert not witness.exists()


def test_a_transposed_matrix_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = tiny_mixtral()
    values = np.ascontiguousarray(arrays["lm_head.weight"].T)
    write_torch(tmp_path / "model.pt", arrays | {"lm_head.weight": values.T})
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    stored = Checkpoint.open(tmp_path / "model.pt").claim("lm_head.weight", values.T.shape)
    read: list[int] = []
    whole = LocalFile.read
    monkeypatch.setattr(LocalFile, "read", lambda self, *span: read.append(span[1]) or whole(self, *span))
    assert np.concatenate(list(stored.blocks(1))).tobytes() == values.T.tobytes()
    assert read == [values.nbytes]
