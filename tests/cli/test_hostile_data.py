"""Data of the user's, wrong in every way, given to every command that takes some: one line, code 5, and nothing left.

Then options that contradict each other or ask for what there is not, beside data that are right.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import write_mixtral, write_sensor

from colibri.cli import main

IDS = np.random.default_rng(8).integers(0, 40, 2000)


class Trap:
    """An object that leaves a file behind when it is read from a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def saved(array: Any) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        np.save(folder / "data.npy", array)
        return folder / "data.npy"

    return save


def objects(folder: Path) -> Path:
    np.savez(folder / "data.npz", x=np.array([Trap(folder / "opened")], object))
    return folder / "data.npz"


def pickled(folder: Path) -> Path:
    (folder / "data.npy").write_bytes(pickle.dumps(Trap(folder / "opened")))
    return folder / "data.npy"


def folder_of_that_name(folder: Path) -> Path:
    (folder / "data.npy").mkdir()
    return folder / "data.npy"


Make = Callable[[Path], Path]
ANY: dict[str, tuple[Make, str]] = {
    "objects": (objects, "data.npz: no array of numpy: Object arrays cannot be loaded"),
    "pickle": (pickled, "data.npy: no array of numpy: neither .npy nor .npz"),
    "folder": (folder_of_that_name, "data.npy: is not a file or a pipe"),
    "missing": (lambda folder: folder / "data.npy", "data.npy: no such file"),
}
TOKENS = ANY | {
    "beyond": (saved(np.append(IDS, 40)), "data.npy: has tokens beyond the vocabulary of 40"),
    "wraps": (saved(np.full(99, 2**64 - 1, np.uint64)), "data.npy: has tokens beyond the vocabulary of 40"),
    "empty": (saved(np.zeros((0, 9), np.int64)), "data.npy: holds int64 [0 × 9], not tokens"),
    "scalar": (saved(np.array(3)), "data.npy: holds int64 [], not tokens"),
    "floats": (saved(np.full(99, np.nan)), "data.npy: holds float64 [99], not tokens"),
    "truth": (saved(IDS > 3), "data.npy: holds bool [2000], not tokens"),
}
SAMPLES = ANY | {
    "nan": (saved(np.full((9, 5), np.nan)), "data.npy: holds numbers that are not finite in fp32"),
    "large": (saved(np.full((9, 5), 1e39)), "data.npy: holds numbers that are not finite in fp32"),
    "narrow": (saved(np.zeros((9, 4))), "data.npy: holds float64 [9 × 4], not numbers [samples, 5]"),
    "scalar": (saved(np.array(1.0)), "data.npy: holds float64 [], not numbers [samples, 5]"),
    "complex": (saved(np.zeros((9, 5), complex)), "data.npy: holds complex128 [9 × 5], not numbers [samples, 5]"),
}
# DATA is what is wrong, GOOD what is right, OUT what must not be there afterwards.
WAYS = {
    "eval": "eval MODEL --data DATA",
    "eval calibrated": "eval MODEL --data GOOD --recipe w4a8:calibrate=DATA",
    "generate": "generate MODEL --board stm32f405 -o OUT --scheme w4a8 --calibrate DATA",
    "build": "build MODEL --board stm32f405 -o OUT --recipe w4a8:calibrate=DATA",
    "prune": "prune MODEL --data DATA --dead -o OUT.json",
    "prune, then test": "prune MODEL --data GOOD --drop 1 --test DATA -o OUT.json",
    "fit": "fit MODEL --board stm32f405 --data DATA -o OUT",
    "fit calibrated": "fit MODEL --board stm32f405 --data GOOD --calibrate DATA -o OUT",
    "explain": "explain MODEL --board stm32f405 --data DATA",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """A language model and a sensor model, with data that are right for them."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(8)
    np.save(folder / "tokens.npy", IDS)
    np.savez(folder / "samples.npz", x=rng.standard_normal((200, 5)).astype(np.float32), y=np.zeros((200, 2)))
    return {
        "tokens": (write_mixtral(folder / "language"), folder / "tokens.npy"),
        "samples": (write_sensor(folder / "sensor"), folder / "samples.npz"),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "make", "words"),
    [("tokens", *one) for one in TOKENS.values()] + [("samples", *one) for one in SAMPLES.values()],
    ids=[*(f"tokens-{name}" for name in TOKENS), *(f"samples-{name}" for name in SAMPLES)],
)
def test_one_line_and_nothing_left(
    way: str,
    kind: str,
    make: Make,
    words: str,
    models: dict[str, tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, good = models[kind]
    data = make(tmp_path)
    before = set(tmp_path.iterdir())
    names = {"MODEL": model, "GOOD": good, "DATA": data, "OUT": tmp_path / "out"}
    line = WAYS[way]
    for name, path in names.items():
        line = line.replace(name, str(path))
    assert main(line.split()) == 5
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert set(tmp_path.iterdir()) == before  # no package, no recipe, no journal, and no pickle was opened


@pytest.mark.parametrize(
    ("kind", "line", "code", "words"),
    [
        ("tokens", "eval MODEL --data GOOD --window 8 --stride 9", 2, "--stride: 9 is more than the window of 8"),
        ("tokens", "eval MODEL --data GOOD --window 65", 2, "--window: 65 is more than the context of 64"),
        ("tokens", "eval MODEL --data GOOD --limit 5", 2, "--limit: 5 tokens are less than the first window scores"),
        ("tokens", "eval MODEL --data GOOD --alone --original MODEL", 2, "--alone, --original: contradict each other"),
        ("tokens", "eval MODEL --data GOOD --recipe f32:calibrate=GOOD", 2, "f32 rounds nothing"),
        ("tokens", "eval MODEL --data GOOD --recipe w4a8:rounding=gptq", 2, "rounding is for calibration data"),
        ("tokens", "eval MODEL --data GOOD --recipe w4a8:calibrate=", 2, "calibrate= names no file"),
        ("samples", "eval MODEL --data GOOD --window 8", 2, "--window, --stride: are for token models"),
        (
            "samples",
            "eval MODEL --data GOOD --recipe w4a8:calibrate=self",
            2,
            "a sensor model writes no text of its own",
        ),
        ("samples", "prune MODEL --data GOOD --stride 8", 2, "--window, --stride: are for token models"),
        ("samples", "explain MODEL --board stm32f405 --data GOOD --window 8", 2, "--window, --stride: are for token"),
        ("samples", "fit MODEL --board stm32f405 --data GOOD --window 8 -o OUT", 2, "--window: is for token models"),
        ("tokens", "prune MODEL --data GOOD --drop 1 --test GOOD --no-eval", 2, "--no-eval, --test: contradict each"),
        (
            "tokens",
            "prune MODEL --data GOOD --test GOOD",
            2,
            "--test: nothing goes without an option that says how many",
        ),
        ("tokens", "prune MODEL --data GOOD --bytes 9", 3, "--bytes 9: the least is "),
        (
            "tokens",
            "explain MODEL --board microbit --data GOOD --reserve-flash 255K",
            3,
            "no smaller recipe that was tried",
        ),
        (
            "tokens",
            "generate MODEL --board stm32f405 -o OUT --recipe w4a8 --calibrate GOOD",
            2,
            "--calibrate beside --recipe: is a part of the recipe",
        ),
        (
            "tokens",
            "generate MODEL --board stm32f405 -o OUT --calibrate-limit 9",
            2,
            "name it with --calibrate FILE|self",
        ),
    ],
)
def test_what_cannot_be_meant_or_met(
    kind: str,
    line: str,
    code: int,
    words: str,
    models: dict[str, tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, good = models[kind]
    for name, path in {"MODEL": model, "GOOD": good, "OUT": tmp_path / "out"}.items():
        line = line.replace(name, str(path))
    assert main(line.split()) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert not (tmp_path / "out").exists()
