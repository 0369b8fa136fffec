"""What a file of pins may say, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from colibri.errors import BadInput
from colibri.passes.pins import load_pins, pinned


def write(folder: Path, text: str) -> Path:
    path = folder / "place.toml"
    path.write_text(text)
    return path


def test_a_file(tmp_path: Path) -> None:
    pins = load_pins(write(tmp_path, '[memory]\n"layers.0.*" = "dtcm"\nx = "axi"\n[kernels]\n"linear_*" = "itcm"\n'))
    assert pins.memory == {"layers.0.*": "dtcm", "x": "axi"}
    assert (pins.weights, pins.kernels) == ({}, {"linear_*": "itcm"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[memroy]\n", "memroy: unknown table; did you mean 'memory'?"),
        ('memory = "dtcm"', "memory: expected a table; write [memory]"),
        (
            '[memory]\nlayers.0.key = "dtcm"',
            "memory: 'layers' has no name of a region; write names with dots in quotes",
        ),
        ("[memory]\nx = 3", "memory: 'x' has no name of a region"),
        ("[memory]\nx = ", "not TOML: "),
        ("x" * (1 << 21), "more than the 1048576 that such a file may have"),
    ],
)
def test_mistakes(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        load_pins(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        load_pins(tmp_path / "none.toml")


def test_patterns() -> None:
    names = ["layers.0.key", "layers.1.key", "x"]
    assert pinned({"layers.*": "a", "x": "b"}, names, ["a", "b"], "f") == {
        "layers.0.key": "a", "layers.1.key": "a", "x": "b",
    }  # fmt: skip
    assert pinned({"layers.?.key": "a", "layers.0.*": "a"}, names, ["a"], "f").keys() == {
        "layers.0.key",
        "layers.1.key",
    }


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ({"layer.0.key": "a"}, "f: 'layer.0.key' fits no name; did you mean 'layers.0.key'?"),
        ({"x": "axj"}, "f: 'x': no region 'axj' for this; did you mean 'axi'?"),
        ({"x": "a", "?": "axi"}, "f: 'x' is to be in 'a' and in 'axi'"),
    ],
)
def test_pins_that_cannot_be(patterns: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        pinned(patterns, ["layers.0.key", "x"], ["a", "axi"], "f")
    assert message in str(caught.value)
