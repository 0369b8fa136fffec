"""Texts, and lines and cells of tables, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARKS = re.compile(r"([\\`*_{}\[\]<>|~#&])")


def head(*titles: str, words: int = 1) -> Iterable[str]:
    """Titles of columns, the first ``words`` of them to the left, numbers to the right."""
    return line(*titles), line(*("---" if index < words else "---:" for index in range(len(titles))))


def line(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def signed(number: int) -> str:
    """A difference with its sign."""
    return f"{number:+,}" if number else "0"


def size(number: int | None) -> str:
    """Bytes, or a dash where there are none to tell."""
    return "–" if number is None else f"{number:,}"


def plain(text: str) -> str:
    r"""Free text with what Markdown or HTML would obey taken at its word.

    >>> plain("[a](b) <i> &lt; _c_")
    '\\[a\\](b) &lt;i&gt; \\&lt; \\_c\\_'
    """
    return _MARKS.sub(r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\>", "&gt;")
