"""A scheme: how a matrix is stored, and what it is multiplied with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from colibri.errors import UsageError, shown
from colibri.graph.coding import Coding, parse_coding
from colibri.graph.graph import BufferKind

_FORM = re.compile(r"([^a+]*)(?:a(8|16))?(\+.*)?", re.DOTALL)
_HINT = "for example w8a8, w4a16, w3g64a8+o5 or f16"


@dataclass(frozen=True)
class Scheme:
    """A coding and the kind of the activations, which are floats exactly where the weights are.

    Its text is the coding's with the bits of the activations in it: ``w4a8``, ``w3g64za16+o5``, ``f16``.
    """

    coding: Coding
    activations: BufferKind

    F32: ClassVar[Scheme]
    W8A8: ClassVar[Scheme]
    W8A16: ClassVar[Scheme]
    W4A8: ClassVar[Scheme]
    W4A16: ClassVar[Scheme]

    @property
    def floats(self) -> bool:
        """Whether it multiplies floats."""
        return self.activations is BufferKind.FLOAT

    def __str__(self) -> str:
        """As `parse` takes it."""
        if self.floats:
            return str(self.coding)
        weights, plus, outliers = str(self.coding).partition("+")
        return f"{weights}a{8 if self.activations is BufferKind.Q8 else 16}{plus}{outliers}"

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """Read a scheme.

        Raises:
            UsageError: not of this form, or a coding that there is not.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise _wrong(text, "is none")
        weights, bits, outliers = match.groups(default="")
        coding = parse_coding(weights + outliers)
        floats = coding.format.floating
        if floats and bits:
            raise _wrong(text, f"{coding} has activations in floats")
        if not floats and not bits:
            raise _wrong(text, f"activations have 8 or 16 bits: {weights}a8{outliers} or {weights}a16{outliers}")
        return cls(coding, BufferKind.FLOAT if floats else BufferKind.Q8 if bits == "8" else BufferKind.Q16)


def _wrong(text: str, what: str) -> UsageError:
    return UsageError(what, where=f"scheme '{shown(text, 40)}'", hint=_HINT)


Scheme.F32 = Scheme.parse("f32")
Scheme.W8A8 = Scheme.parse("w8a8")
Scheme.W8A16 = Scheme.parse("w8a16")
Scheme.W4A8 = Scheme.parse("w4a8")
Scheme.W4A16 = Scheme.parse("w4a16")

# Those that are compared where nobody has chosen.
SCHEMES = (Scheme.F32, Scheme.W8A8, Scheme.W8A16, Scheme.W4A8, Scheme.W4A16)
