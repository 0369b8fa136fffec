"""Calibration data: how it is cut and kept, what is refused, and what the model writes where there is none."""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import ORACLE, load_graph, sensor, write_mixtral, write_sensor

from colibri import arrays
from colibri.calibrate.data import Calibration, CalibrationData, read_calibration, sha256
from colibri.calibrate.find import find_calibration
from colibri.calibrate.own_text import own_text
from colibri.cli import main
from colibri.errors import BadInput, UsageError
from colibri.graph.graph import Graph

# Of the tiny Mixtral's own text, 4 sequences of 16 tokens: on every machine, with every numpy.
OWN_TEXT = "9b95fef330d26559"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return load_graph(write_mixtral(tmp_path_factory.mktemp("m") / "m"), context=16)


def saved(folder: Path, array: Any) -> Path:
    path = folder / "data.npy"
    np.save(path, array)
    return path


def test_a_text_becomes_windows_of_the_context(tmp_path: Path, graph: Graph) -> None:
    data = read_calibration(saved(tmp_path, np.arange(40) % 30), graph)
    assert data.windows is not None
    assert data.windows.tolist() == [[i % 30 for i in range(16)], [i % 30 for i in range(16, 32)]]
    assert (data.count, data.sequences) == (32, 2)


def test_windows_are_no_longer_than_attention_has_room_for(tmp_path: Path) -> None:
    model = load_graph(write_mixtral(tmp_path / "m", max_position_embeddings=4096))
    assert model.context == 4096
    assert read_calibration(saved(tmp_path, np.arange(1500) % 30), model).windows.shape == (2, 512)  # type: ignore[union-attr]


def test_rows_are_texts_of_their_own_and_a_limit_takes_whole_windows(tmp_path: Path, graph: Graph) -> None:
    path = saved(tmp_path, np.arange(30).reshape(3, 10))
    assert read_calibration(path, graph, 20).windows.tolist() == np.arange(20).reshape(2, 10).tolist()  # type: ignore[union-attr]
    assert read_calibration(path, graph, 4).windows.tolist() == [[0, 1, 2, 3]]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["tokens", "samples", "pairs"])
def test_what_is_kept_is_read_again_to_the_byte(tmp_path: Path, graph: Graph, kind: str) -> None:
    if kind == "tokens":
        data, model = CalibrationData(windows=np.array([[1, 2, 3], [4, 5, 6]])), graph
    elif kind == "samples":
        data, model = (
            CalibrationData(samples=np.array([[0.1, 2, -3, 4, 5]], np.float32)),
            load_graph(write_sensor(tmp_path / "s")),
        )
    else:
        model = load_graph(ORACLE / "switch-base")
        start = model.start
        data = CalibrationData(pairs=((np.array([5, 6, 7]), np.array([start, 8])), (np.array([9]), np.array([start]))))
    path = tmp_path / "calibration.npz"
    path.write_bytes(data.packed())
    again = read_calibration(path, model)
    assert again.packed() == data.packed()
    assert again.count == data.count


def test_packed_bytes_are_the_same_everywhere() -> None:
    packed = CalibrationData(windows=np.array([[1, 2, 3]])).packed()
    assert sha256(packed) == "4781fe0a172e22367d77bf9f42122504d6d6f78790e4013537063dda0105810e"


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([1, 2, 64]), "beyond the vocabulary of"),
        (np.array([1, -2, 3]), "beyond the vocabulary of"),
        (np.array([], np.int64), "not tokens"),
        (np.array([1.0, 2.0]), "holds float64"),
        (np.array([1.0, np.nan]), "holds float64"),
        (np.zeros((2, 2, 2), np.int64), "not tokens"),
        (np.array(3), "not tokens"),
        (np.array(["a"]), "not tokens"),
    ],
)
def test_tokens_that_are_none(tmp_path: Path, graph: Graph, array: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_calibration(saved(tmp_path, array), graph)


def test_pickles_stay_closed(tmp_path: Path, graph: Graph) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "opened",))

    path = tmp_path / "data.npy"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(BadInput, match="no array of numpy"):
        read_calibration(path, graph)
    np.save(path, np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(BadInput, match="no array of numpy"):
        read_calibration(path, graph)
    assert not (tmp_path / "opened").exists()


def test_samples_that_are_none(tmp_path: Path) -> None:
    model = load_graph(write_sensor(tmp_path / "s"))
    for array, said in (
        (np.full((3, 5), np.nan), "not finite"),
        (np.zeros((3, 4)), r"not numbers \[samples, 5\]"),
        (np.zeros((0, 5)), "not numbers"),
    ):
        with pytest.raises(BadInput, match=said):
            read_calibration(saved(tmp_path, array), model)


def test_the_command_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_mixtral(tmp_path / "m")
    base = ["generate", str(folder), "--board", "stm32f405", "-o", str(tmp_path / "p"), "--scheme", "w4a8"]
    path = saved(tmp_path, np.array([1, 2, 9999]))
    for options, code, said in (
        (["--calibrate", str(path)], 5, "has tokens beyond the vocabulary"),
        (["--calibrate", str(tmp_path / "none.npy")], 5, "no such file"),
        (["--rounding", "gptq"], 2, "is for calibration data; name it with --calibrate FILE|self"),
        (["--scheme", "f32", "--calibrate", "self"], 2, "f32 rounds nothing"),
    ):
        assert main([*base, *options]) == code
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not (tmp_path / "p").exists()


def test_the_models_own_text_is_the_same_everywhere(graph: Graph) -> None:
    data = own_text(graph, 64)
    assert data.windows is not None and data.windows.shape == (4, 16)
    assert hashlib.sha256(data.windows.astype("<u2").tobytes()).hexdigest()[:16] == OWN_TEXT
    assert not np.array_equal(own_text(graph, 64, seed=2).windows, data.windows)


def test_no_text_of_its_own(tmp_path: Path) -> None:
    for model, what in ((sensor("top1-e4"), "a sensor model"), (ORACLE / "switch-base", "a model with an encoder")):
        with pytest.raises(UsageError, match=f"{what} writes no text of its own; name a file of data"):
            find_calibration(load_graph(model), Calibration())


def test_a_recipe_knows_its_data(tmp_path: Path, graph: Graph) -> None:
    path = saved(tmp_path, np.arange(32) % 30)
    right = sha256(read_calibration(path, graph).packed())
    assert find_calibration(graph, Calibration(path, sha256=right)).count == 32
    with pytest.raises(BadInput, match="is not the calibration data of this recipe"):
        find_calibration(graph, Calibration(path, sha256="0" * 64))


def test_a_small_file_of_many_tokens_is_refused_before_they_are_widened(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (arrays._MOST_TOKENS + 1,)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("tokens.npy", "w") as entry:
        entry.write(header.getvalue() + bytes(arrays._MOST_TOKENS + 1))
    with pytest.raises(BadInput, match=r"t.npz: has 67,108,865 tokens, at most 67,108,864 are read; save the first"):
        read_calibration(path, load_graph(write_mixtral(tmp_path / "m")))
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 0x55
    path.write_bytes(damaged)
    with pytest.raises(BadInput, match="no array of numpy"):
        read_calibration(path, load_graph(tmp_path / "m"))
