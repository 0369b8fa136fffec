"""The figures of docs/numerics.md, measured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from colibri.errors import BadInput
from colibri.graph import float32
from colibri.graph.coding import FP4, W4, W8, Coding, parse_coding
from colibri.graph.graph import BufferKind
from colibri.passes.quantise import activation_limit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/numerics.md").read_text(encoding="utf-8")
ALL = np.arange(0, 0x7F800000, 797, dtype=np.int64).astype(np.uint32).view(np.float32)  # every 797th magnitude


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * np.fromiter(map(math.erfc, -x * math.sqrt(0.5)), np.float64, x.size)


EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}
ROWS = re.findall(r"^\| (\w+) \| (all|-?\d+ to \d+) \| ([\d.e-]+) \| (relative|absolute) \|$", PAGE, re.M)


def test_every_function_has_a_row() -> None:
    assert [row[0] for row in ROWS] == list(EXACT)


@pytest.mark.parametrize(("name", "span", "stated", "kind"), ROWS)
def test_errors_of_functions(name: str, span: str, stated: str, kind: str) -> None:
    low, high = (-np.inf, np.inf) if span == "all" else map(float, span.split(" to "))
    evenly = np.linspace(max(low, -100), min(high, 100), 2_000_001).astype(np.float32)
    x = np.concatenate([ALL, -ALL, evenly])
    x = x[(x > low) & (x <= high) & (np.abs(x) > 1e-36)]
    with np.errstate(over="ignore", under="ignore"):
        right = EXACT[name](x.astype(np.float64))
        error = np.abs(getattr(float32, name)(x) - right)
    if kind == "relative":
        error /= np.abs(right)
    assert 0.75 * float(stated) < error.max() < float(stated)  # neither broken nor loosely stated


@pytest.mark.parametrize(
    ("form", "kind", "text", "wanted"),
    [
        (W8, BufferKind.Q8, "qmax is 127 for k ≤ 133,144", 127),
        (W4, BufferKind.Q8, "qmax is 127 for k ≤ 16,643", 127),
        (parse_coding("w6"), BufferKind.Q8, "qmax is 127 for k ≤ 4,160", 127),
        (W8, BufferKind.Q16, "qmax is 32767 for k ≤ 516", 32767),
        (W4, BufferKind.Q16, "qmax is 32767 for k ≤ 64", 32767),
        (FP4, BufferKind.Q16, "qmax is 32767 for k ≤ 21,846", 32767),
    ],
)
def test_limits_of_columns(form: Coding, kind: BufferKind, text: str, wanted: int) -> None:
    assert f"| {text};" in PAGE
    most = int(text.split("≤ ")[1].replace(",", ""))
    assert activation_limit(form, kind, most, "here") == wanted
    if kind is BufferKind.Q8:
        with pytest.raises(BadInput, match="could pass 32 bits"):
            activation_limit(form, kind, most + 1, "here")
    else:
        assert activation_limit(form, kind, most + 1, "here") < wanted


def test_limits_that_are_quoted() -> None:
    assert "at k = 4096 it is 4,128" in PAGE and "at k = 128 it is 16,513" in PAGE
    assert activation_limit(W8, BufferKind.Q16, 4096, "here") == 4128
    assert activation_limit(W4, BufferKind.Q16, 128, "here") == 16513


def test_silu_far_below_zero_is_small() -> None:
    x = -np.logspace(1.95, 30, 1000).astype(np.float32)
    assert np.abs(float32.silu(x)).max() < 1e-8


def test_constants_of_the_page_are_those_of_the_code() -> None:
    """An error bound does not see the last bit of a constant."""
    constants = set(re.findall(r"-?0x1\.[0-9a-f]+p[+-]\d+", PAGE.split("\n## Functions\n")[1].split("\n## ")[0]))
    python = (ROOT / "codegen/colibri/graph/float32.py").read_text(encoding="utf-8")
    portable = (ROOT / "runtime_c/kernels/portable/float32.h").read_text(encoding="utf-8")
    functions = portable[portable.index("float colibri_exp(") :]
    assert set(re.findall(r"-?0x1\.[0-9a-f]+p[+-]\d+", python)) == constants
    assert set(re.findall(r"(-?0x1\.[0-9a-f]+p[+-]\d+)f", functions)) == constants


def test_constants_are_the_nearest_floats() -> None:
    assert np.float32(np.log2(np.e)) == float32._LOG2_E
    assert np.float32(np.sqrt(2 / np.pi)) == float32._GELU_SLOPE
    assert np.float32(0.044715) == float32._GELU_CUBIC
    high = float(float32._LN2_HIGH)
    assert high == int(high * 2**9) / 2**9  # few bits, so that whole * high is exact
    assert np.float32(np.log(2) - high) == float32._LN2_LOW
