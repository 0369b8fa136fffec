"""What the original said is kept, and stands for another run of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_models import ORACLE, sensor, write_mixtral

from colibri.fit.original import keep_outputs, make_original
from colibri.fit.split import Part
from colibri.fit.task import Data, Source, Task, run_task
from colibri.options import Options


@pytest.mark.parametrize("kind", ["tokens", "samples"])
def test_kept_outputs_are_those_of_another_run(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "tokens":
        model, data, context = write_mixtral(tmp_path / "m"), tmp_path / "t.npy", 12
        np.save(data, np.random.default_rng(3).integers(0, 40, 60 * 12 + 1))
    else:
        model, data, context = sensor("top1-e4"), ORACLE / "load-moe/top1-e4/golden.npz", None
    source = Source(str(model), str(data), 0, 700 if context else 90, False, 0)
    original = make_original(model, Options(context=context), tmp_path / "original")
    rows = Data.read(source, original.package.model, original.package.context)
    recipe = "w4a8:context=12" if context else "w4a8"
    task = Task(source, recipe, str(Part.FINAL), str(tmp_path / "original"))
    without = run_task(task)
    monkeypatch.setattr("colibri.fit.original._MOST_BYTES", 100)
    keep_outputs(original, rows.whole, tmp_path / "original")
    assert not (tmp_path / "original/outputs.f32").exists()
    monkeypatch.undo()
    keep_outputs(original, rows.whole, tmp_path / "original")
    assert (tmp_path / "original/outputs.f32").exists()
    original.program.write_bytes(b"")  # it is not run again
    assert run_task(task) == without and without.distance > 0
    assert run_task(msgspec.structs.replace(task, original="")) == without
