"""Break generated lines as a person would: at commas, aligned behind the opening parenthesis."""

from __future__ import annotations

import textwrap

LIMIT = 120


def wrap_c(line: str, indent: int = 0) -> list[str]:
    """A line of C that will stand ``indent`` columns further right, in as many lines as it takes.

    Only commas directly inside the first parenthesis are places to break; a line without one stays whole.

    >>> wrap_c("f(" + ", ".join(["argument"] * 13) + ");")[1]
    '  argument);'
    """
    if indent + len(line) <= LIMIT or "(" not in line:
        return [line]
    inside = line.index("(") + 1
    pieces, depth, start = [], 1, 0
    for at in range(inside, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 1 and line[at] == ",":
            pieces.append(line[start : at + 1].lstrip() if start else line[: at + 1])
            start = at + 1
    pieces.append(line[start:].lstrip() if start else line)
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if indent + len(lines[-1]) + 1 + len(piece) <= LIMIT:
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * inside + piece)
    return lines


def wrap_comment(text: str) -> list[str]:
    """A comment in one line, or in several that begin with an asterisk."""
    lines = textwrap.wrap(f"/* {text} */", LIMIT, subsequent_indent=" * ", break_long_words=False)
    return lines or ["/* */"]
