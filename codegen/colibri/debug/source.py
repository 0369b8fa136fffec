"""Where `src/model.c` calls which kernel: its lines are what an image's line numbers speak of."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KERNEL = re.compile(r"^COLIBRI_KERNEL void (\w+)\(", re.MULTILINE)
_FUNCTION = re.compile(
    r"^static void (\w+)_(\d+|rows)\(const struct \w+ \*c, const \w+_offsets \*l.*?^\{\n(.*?)^\}", re.M | re.S
)
_OWN_WEIGHTS = re.compile(r"(?:w|c->model\[[^\]]*\]) \+ l->\w+")


@dataclass(frozen=True)
class KernelCall:
    """One call in the text.

    Attributes:
        first: its first line, counted from 1.
        last: its last line.
        weights: which argument points to weights by an offset of the layer, counted from 0; -1 when none does.
    """

    kernel: str
    first: int
    last: int
    weights: int


@dataclass(frozen=True)
class BlockFunction:
    """The function of a block for one number of rows, or for any (0), with its calls in the order of the text."""

    block: str
    rows: int
    calls: tuple[KernelCall, ...]


def read_source(text: str) -> tuple[list[str], list[BlockFunction]]:
    """Names of all kernels, and the functions of the blocks."""
    kernels = _KERNEL.findall(text)
    call = re.compile(rf"^ +({'|'.join(map(re.escape, kernels))})\((.*?)\);$", re.MULTILINE | re.DOTALL)
    functions = []
    for function in _FUNCTION.finditer(text):
        calls = []
        for match in call.finditer(function[3]) if kernels else ():
            first = text.count("\n", 0, function.start(3) + match.start(1)) + 1
            arguments = _arguments(match[2])
            weights = (at for at, one in enumerate(arguments) if _OWN_WEIGHTS.fullmatch(one))
            calls.append(KernelCall(match[1], first, first + match[0].count("\n"), next(weights, -1)))
        functions.append(BlockFunction(function[1], 0 if function[2] == "rows" else int(function[2]), tuple(calls)))
    return kernels, functions


def _arguments(text: str) -> list[str]:
    """
    >>> _arguments("x, f(a, b), w + l->q")
    ['x', 'f(a, b)', 'w + l->q']
    """
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [" ".join(one.split()) for one in found]
