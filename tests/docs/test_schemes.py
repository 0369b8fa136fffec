"""docs/schemes.md: its table has every scheme that the script measures, and its limits are the code's."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from small_models import SHAKESPEARE

from colibri.boards.load import load_board
from colibri.errors import BadInput
from colibri.generate import prepare
from colibri.graph.coding import parse_coding
from colibri.graph.graph import BufferKind
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.passes.quantise import activation_limit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/schemes.md").read_text(encoding="utf-8")


def load_script() -> ModuleType:
    """ci/codings as a module."""
    loader = importlib.machinery.SourceFileLoader("ci_codings", str(ROOT / "ci/codings"))
    spec = importlib.util.spec_from_loader("ci_codings", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


codings = load_script()
ROWS = re.findall(r"^\| ([a-z0-9+]+) \| ([\d.]+) \| ([\d,]+) \| ([+-][\d.]+) \| ([\d.]+) \| ([\d.]+) % \|", PAGE, re.M)


def test_the_table_has_every_scheme_that_is_measured() -> None:
    assert [row[0] for row in ROWS] == [str(scheme) for scheme in codings.SCHEMES]
    for scheme, row in zip(codings.SCHEMES, ROWS, strict=True):
        assert row[1] == f"{scheme.coding.weight_bits(codings.ROWS, codings.COLUMNS):.2f}"


def test_more_bits_lose_less() -> None:
    divergence = {row[0]: float(row[4]) for row in ROWS}
    order = ["f16", "w8a16", "w6a16", "w5a8", "w4a8", "w3a8", "w2a8"]
    assert sorted(order, key=divergence.__getitem__) == order
    for bits in (2, 3, 4):
        assert divergence[f"w{bits}za8"] < divergence[f"w{bits}a8"]
    assert divergence["w2g64za8"] < divergence["w2a8"]  # of the same bits
    assert divergence["w4a8"] < 0.04


@pytest.mark.parametrize("text", ["w4a8", "w2za8+o10"])
def test_bytes_of_the_table(text: str, tmp_path: Path) -> None:
    options = Options(Scheme.parse(text))
    made = prepare(SHAKESPEARE, load_board("x86-64-v3"), options, tmp_path / "p", proven=False)
    # The manifest, which names the scheme, has some bytes more or less with another version of the generator.
    assert (
        abs(made.package.model_bin_bytes - next(int(row[2].replace(",", "")) for row in ROWS if row[0] == text)) < 256
    )


def test_columns_of_a_matrix() -> None:
    limits = re.search(r"8-bit activations:\n?(.*?)\. A wider", PAGE.replace("\n", " "))
    assert limits is not None
    found = re.findall(r"([\d,]+) for (w\d)", limits[1])
    assert [word for _, word in found] == ["w8", "w4", "w5", "w6", "w3"]
    for number, word in found:
        most = int(number.replace(",", ""))
        assert activation_limit(parse_coding(word), BufferKind.Q8, most, "here") == 127
        with pytest.raises(BadInput, match="could pass 32 bits"):
            activation_limit(parse_coding(word), BufferKind.Q8, most + 1, "here")
    assert "at 4,096 columns w4 has 516 steps on each side, w8 4,128" in " ".join(PAGE.split())
    assert activation_limit(parse_coding("w4"), BufferKind.Q16, 4096, "here") == 516
