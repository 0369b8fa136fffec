"""The user's data: tokens and samples, cut into what runs, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from colibri.boards.load import load_board
from colibri.errors import BadInput
from colibri.package import Memory, ModelFacts, Package
from colibri.profile.inputs import built_in, read_inputs

Save = Callable[[np.ndarray], Path]


def package(kind: str) -> Package:
    tokens = kind == "tokens"
    return Package(
        schema=1,
        generator="test",
        name="tiny",
        prefix="tiny",
        board=load_board("stm32f405"),
        scheme="w8a8",
        kv="f32" if tokens else "",
        batch=0 if tokens else 2,
        prefill=1 if tokens else 0,
        context=8 if tokens else 0,
        model=ModelFacts(kind, "test", 1, 0 if tokens else 3, 16 if tokens else 1, (4,), 1, ""),
        abi_hash="",
        recipe_hash="",
        model_bin_bytes=0,
        sections=(),
        memory=Memory((), 0),
    )


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def saved(array: np.ndarray) -> Path:
        path = tmp_path / "data.npy"
        np.save(path, array)
        return path

    return saved


def test_flat_tokens_are_cut_at_the_context(save: Save) -> None:
    inputs = read_inputs(save(np.arange(20) % 16), package("tokens"), 100)
    assert [len(piece) for piece in inputs.pieces] == [8, 8, 4]
    assert inputs.whole is not None
    assert len(inputs.whole) == 8
    assert inputs.what == "20 tokens in 3 sequences from data.npy"


def test_rows_of_tokens_are_sequences_up_to_the_most(save: Save) -> None:
    inputs = read_inputs(save(np.zeros((4, 5), np.int64)), package("tokens"), 12)
    assert [len(piece) for piece in inputs.pieces] == [5, 5, 2]


def test_samples_fill_whole_calls(save: Save) -> None:
    inputs = read_inputs(save(np.ones((7, 3), np.float64)), package("samples"), 100)
    assert [piece.shape for piece in inputs.pieces] == [(2, 3)] * 3


def test_samples_from_csv_and_npz(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    np.savez(tmp_path / "b.npz", x=np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    first = read_inputs(tmp_path / "a.csv", package("samples"), 9).pieces
    second = read_inputs(tmp_path / "b.npz", package("samples"), 9).pieces
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("kind", "array", "message"),
    [
        ("tokens", np.array([16]), "beyond the vocabulary of 16"),
        ("tokens", np.array([-1]), "beyond the vocabulary of 16"),
        ("tokens", np.array([1.0]), "not tokens"),
        ("tokens", np.array([], np.int64), "not tokens"),
        ("samples", np.ones((4, 2)), r"not numbers \[samples, 3\]"),
        ("samples", np.full((4, 3), np.nan), "not finite"),
        ("samples", np.full((4, 3), 1e39), "not finite"),
        ("samples", np.ones((1, 3)), "do not fill a call of 2"),
    ],
)
def test_refused(save: Save, kind: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_inputs(save(array), package(kind), 100)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    for name in ("broken.npy", "absent.npy"):
        with pytest.raises(BadInput, match=name):
            read_inputs(tmp_path / name, package("tokens"), 100)


def test_built_in_inputs_are_the_same_each_time() -> None:
    for kind in ("tokens", "samples"):
        first, second = built_in(package(kind)), built_in(package(kind))
        assert all(np.array_equal(a, b) for a, b in zip(first.pieces, second.pieces, strict=True))
        assert first.requests(kind == "tokens") == second.requests(kind == "tokens")


def test_a_package_of_an_older_generator_loads() -> None:
    raw = msgspec.json.decode(msgspec.json.encode(package("tokens")))
    raw["ops"] = [{"name": "q", "layer": 0, "kind": "Linear"}]
    op = msgspec.convert(raw, Package).ops[0]
    assert (op.macs, op.kernels, op.repeats) == (0, (), 1)
