"""Calibration data of a search: what a user's file holds now, whatever it held before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small_models import load_graph, write_mixtral

from colibri.calibrate.data import read_calibration
from colibri.fit.calibration import calibration_file, given_calibration
from colibri.fit.journal import opened
from colibri.fit.task import Data, Source
from colibri.model_facts import model_facts
from colibri.progress import unseen


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"), context=16)
    tokens, made = tmp_path / "tokens.npy", tmp_path / "made.npz"
    np.save(tokens, np.arange(400) % 40)
    source = Source(str(tmp_path / "m"), str(tokens), 0, 0, apart=False, seed=0)
    data = Data.read(source, model_facts(graph), graph.context)
    with opened(tmp_path / "journal", "checkpoint") as journal:
        for token in (1, 2):
            np.save(tokens, np.full(64, token))
            given = given_calibration(str(tokens), graph)
            found = calibration_file(str(tokens), given, graph, data, made, journal, "content", unseen)
            assert found == str(made)
            windows = read_calibration(made, graph).windows
            assert windows is not None and np.unique(windows).tolist() == [token]


def test_only_files_are_given(tmp_path: Path) -> None:
    graph = load_graph(write_mixtral(tmp_path / "m"))
    assert [given_calibration(word, graph) for word in ("", "self", "none")] == [None] * 3
