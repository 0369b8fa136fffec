"""Lay generated C out as `clang-format` with the house style would: lines within 120 columns, comments in a column."""

from __future__ import annotations

import re

WIDTH = 120
_TRAILING = re.compile(r"^(?P<code>\s*(?:#define )?[^\s/#*{}][^/]*\S)\s+(?P<comment>/\* .* \*/)$")


def lay_out(text: str) -> str:
    """Wrap long lines behind a comma, then align the comments of neighbouring lines."""
    lines = [wrapped for line in text.split("\n") for wrapped in wrap(line)]
    return "\n".join(_align(lines))


def wrap(line: str, width: int = WIDTH, open_before: tuple[int, ...] = ()) -> list[str]:
    """Break a line behind commas; the rest goes on under the bracket that is open there.

    Args:
        open_before: columns of the brackets that earlier lines left open, outermost first.

    >>> wrap("    call(first, second);", 18)
    ['    call(first,', '         second);']
    """
    if len(line) <= width or line.lstrip().startswith(("/*", "* ", "*/", "#")):
        return [line]
    open_at = list(open_before)
    best: tuple[int, tuple[int, ...]] | None = None
    for column, character in enumerate(line):
        if character in "({":
            open_at.append(column)
        elif character in ")}" and open_at:
            open_at.pop()
        elif character == "," and open_at and column < min(width, len(line) - 1):
            # never inside a call that could stay whole
            best = (column + 1, tuple(open_at)) if best is None or len(open_at) <= len(best[1]) else best
    if best is None:  # an attribute may stand on a line of its own
        code, attribute, rest = line.partition(" __attribute__")
        return [code, f"    {attribute.lstrip()}{rest}"] if attribute else [line]
    cut, still_open = best
    return [line[:cut], *wrap(" " * (still_open[-1] + 1) + line[cut:].lstrip(), width, still_open)]


def _align(lines: list[str]) -> list[str]:
    result: list[str] = []
    block: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        match = _TRAILING.match(line)
        if match is not None:
            block.append((match["code"], match["comment"]))
            continue
        column = max((len(code) for code, _ in block), default=0)
        result += [f"{code.ljust(column)} {comment}" for code, comment in block]
        block = []
        result.append(line)
    return result[:-1]
