"""Samples from a CSV file: what one line may hold, and which column is which input."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colibri.boards.words import nearest
from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput, shown

_LARGEST = float(np.finfo(np.float32).max)
_CSV_BYTES = 64 << 20
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[,'_ \u00a0\u202f][0-9]{3})+(?:\.[0-9]*)?")
_WORDS = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)


def read_samples(path: Path, inputs: int, labels: Sequence[str] = ()) -> NDArray[np.float32]:
    """Read a CSV of numbers (UTF-8, at most 64 MB; a pipe serves as well), ``inputs`` a line.

    One line of column names may stand first. Where the model names its inputs they must be those names; their order is
    the file's own.

    Args:
        labels: the model's names of its inputs; empty when it has none.

    Raises:
        BadInput: unreadable, no samples, other columns than the model's inputs, or something that is not a finite
            number; with the line.
    """
    where = shown(str(path), 300)
    try:
        text = read_bounded(path, _CSV_BYTES, pipe=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot be read: not UTF-8 at byte {error.start + 1}", where=where) from None
    values = array("f")
    order: list[int] | None = None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if not row:
                continue
            at = f"{where}, line {reader.line_num}"
            if len(row) != inputs:
                raise BadInput(f"{len(row)} columns, the model has {inputs} inputs", where=at)
            cells = [cell.strip() for cell in row]
            if order is None:
                order = list(range(inputs))
                if _is_heading(cells, labels):
                    order = _columns(cells, labels, at)
                    continue
            numbers = [_number(cell, column, at) for column, cell in enumerate(cells, 1)]
            values.extend(numbers[column] for column in order)
    except csv.Error as error:
        raise BadInput(f"is not CSV: {error}", where=f"{where}, line {reader.line_num}") from None
    if not values:
        raise BadInput("holds no samples", where=where, hint=f"one line a sample, {inputs} numbers each")
    return np.frombuffer(values, np.float32).reshape(-1, inputs).copy()


def _is_heading(cells: list[str], labels: Sequence[str]) -> bool:
    """Names: the model's, or else words only; what merely looks odd among numbers is a fault of that cell."""
    return cells == _stripped(labels) or not any(
        not cell or _NUMBER.fullmatch(cell) or _WORDS.fullmatch(cell) or _GROUPED.fullmatch(cell) for cell in cells
    )


def _columns(names: list[str], labels: Sequence[str], at: str) -> list[int]:
    """For each input of the model, its column."""
    known = _stripped(labels)
    if not known or names == known:
        return list(range(len(names)))
    for column, name in enumerate(names, 1):
        if name not in known:
            hint = nearest(name, known) if len(known) <= 32 else "`colibri inspect --json` names them"
            raise BadInput(f"column {column}, '{shown(name)}', is no input of the model", where=at, hint=hint)
        if names.count(name) > 1:
            raise BadInput(f"'{shown(name)}' is there twice", where=at, hint="give each column a name of its own")
    return [names.index(name) for name in known]


def _stripped(labels: Sequence[str]) -> list[str]:
    return [label.strip() for label in labels]


def _number(cell: str, column: int, at: str) -> float:
    if not cell:
        raise BadInput(f"column {column} is empty", where=at, hint="every input needs a number")
    if not _NUMBER.fullmatch(cell) or not abs(float(cell)) <= _LARGEST:
        hint = "write it without marks between the digits" if _GROUPED.fullmatch(cell) else ""
        raise BadInput(f"column {column}: '{shown(cell)}' is not a finite number", where=at, hint=hint)
    return float(cell)
