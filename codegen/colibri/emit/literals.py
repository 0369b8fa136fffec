"""C-safe names and literals. Nothing from a checkpoint reaches C except through here."""

from __future__ import annotations

import re

import numpy as np

from colibri.errors import UsageError, shown

PREFIX = "[a-z][a-z0-9_]{0,39}"  # what C names may begin with, as a regular expression

# fmt: off
_RESERVED = frozenset([
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "main",
    "colibri", "bool", "true", "false", "asm", "typeof",
    # targets of the build files, and the port's own prefix
    "all", "bench", "clean", "gcc", "help", "install", "oversize", "package", "port", "product", "test",
])
# fmt: on


def float_literal(value: float) -> str:
    """A C literal with exactly this fp32 value.

    >>> float_literal(0.25)
    '0x1.0p-2f'
    """
    rounded = np.float32(value)
    if not np.isfinite(rounded):
        raise ValueError(f"{value} has no C literal")
    digits = re.sub(r"(\.[0-9a-f]+?)0+p", r"\1p", float(rounded).hex())
    return f"{digits}f"


def identifier(text: str) -> str:
    """The C identifier nearest to a free text: lower case, digits, single underscores.

    >>> identifier("Shakespeare-MoE v2")
    'shakespeare_moe_v2'
    >>> identifier("../../7 seas")
    'm_7_seas'
    """
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40].strip("_")
    return name if name and name[0].isalpha() and name not in _RESERVED else f"m_{name}".rstrip("_")


def checked_prefix(text: str) -> str:
    """A prefix given by the user.

    Raises:
        UsageError: it is not a C identifier of lower case letters, digits and underscores.
    """
    if not re.fullmatch(PREFIX, text) or text in _RESERVED:
        raise UsageError(
            f"'{shown(text)}' cannot begin C names",
            where="--prefix",
            hint="use a-z, 0-9 and _, starting with a letter, at most 40",
        )
    return text


def comment_text(text: str, limit: int = 80) -> str:
    """Free text that can stand inside a C comment, on one line.

    >>> comment_text("a */ int x; /* ?" + "?/")
    'a * / int x; / * ? ?/'
    """
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)[:limit]
    plain = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)
    return plain.rstrip("\\")
