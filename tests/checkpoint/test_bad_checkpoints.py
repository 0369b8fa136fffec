"""The reader refuses what it must, in one line, and leaves the rest to the importer."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_bad import CASES, Case, Stage, tiny_mixtral, write_checkpoint, write_shards
from small_models import loaded

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import BadInput


def read_all(folder: Path) -> int:
    checkpoint = Checkpoint.open(folder)
    for name in checkpoint.names():
        checkpoint.take(name, checkpoint.shape(name))
    assert checkpoint.finish() == []
    return len(checkpoint.names())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reader_on_each_case(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / case.name
    case.build(folder)
    before = sorted(tmp_path.rglob("*"))
    if case.stage is Stage.READER:
        with pytest.raises(BadInput) as caught:
            read_all(folder)
        message = str(caught.value)
        assert "\n" not in message and message.isprintable()
        assert caught.value.exit_code == 5
        for words in case.words:
            assert words in message
    else:
        assert read_all(folder) > 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_importer_on_each_case(case: Case, tmp_path: Path) -> None:
    case.build(tmp_path / case.name)
    if case.stage is Stage.ACCEPTED:
        assert import_graph(Checkpoint.open(tmp_path / case.name), ImportOptions()).dropped == []
        return
    with pytest.raises(BadInput) as caught:
        loaded(import_graph(Checkpoint.open(tmp_path / case.name), ImportOptions()))
    assert str(caught.value).isprintable()
    for words in case.words:
        assert words in str(caught.value)


def test_every_name_once() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 19


def test_the_unbroken_ones_are_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "single")
    write_shards(tmp_path / "sharded")
    assert read_all(tmp_path / "single") == read_all(tmp_path / "sharded") == len(tiny_mixtral())
