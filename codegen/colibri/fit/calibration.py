"""Calibration data of a search: one file beside the output, which its recipes name and the package takes along."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np

from colibri.calibrate.data import OWN, SAMPLES, TOKENS, CalibrationData, read_calibration
from colibri.calibrate.own_text import own_text
from colibri.checkpoint.untrusted import is_there, read_bounded
from colibri.errors import UsageError, no_room, shown
from colibri.evaluate.data import TokenData
from colibri.fit.journal import Journal, key_of
from colibri.fit.split import Part
from colibri.fit.task import Data
from colibri.graph.graph import Graph, ModelKind
from colibri.progress import Progress

NONE = "none"
_OTHER = "choose another -o"
_MOST_BYTES = 512 << 20


class _Written(msgspec.Struct, frozen=True):
    sha256: str


def given_calibration(asked: str, graph: Graph) -> CalibrationData | None:
    """What the file holds that is asked for; None where none is.

    Raises:
        BadInput, UsageError: as `read_calibration`.
    """
    if asked in ("", OWN, NONE):
        return None
    return read_calibration(Path(asked), graph, SAMPLES if graph.kind is ModelKind.SAMPLES else TOKENS)


def nameable(path: Path, asked: str) -> None:
    """Refuse a file that no recipe could name, if there is going to be one.

    Raises:
        UsageError: its path has what parts the words of a recipe.
    """
    if asked != NONE and ":" in str(path):
        raise UsageError("recipes name this path, which has no ':' then", where=shown(str(path), 300), hint=_OTHER)


def calibration_file(
    asked: str,
    given: CalibrationData | None,
    graph: Graph,
    data: Data,
    path: Path,
    journal: Journal,
    content: str,
    progress: Progress,
) -> str:
    """Write the data, unless it is there: the file that recipes name; empty where nothing is calibrated.

    Its rows are as long as the least context, so that a longer one changes no bit.

    Args:
        asked: a file, ``self``, ``none``, or empty for rows of the data.
        given: what the file holds, which the journal does not know: it may be another one by now.
        graph: in fp32.
        path: of the file.
        content: hash of what it depends on.

    Raises:
        UsageError: as `own_text`, or the file cannot be written.
    """
    if asked == NONE:
        return ""
    key = key_of(content, "calibration", asked, graph.context)
    known = journal.get(key, _Written) if given is None else None
    if known is not None and is_there(path):
        raw = read_bounded(path, _MOST_BYTES)
        if hashlib.sha256(raw).hexdigest() == known.sha256:
            return str(path)
    raw = (given or _made(asked, graph, data, progress)).packed()
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(raw)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise no_room(str(path), error, _OTHER) from None
    if given is None:
        journal.put(key, "", _Written(hashlib.sha256(raw).hexdigest()))
    return str(path)


def _made(asked: str, graph: Graph, data: Data, progress: Progress) -> CalibrationData:
    if asked == OWN:
        return own_text(graph, TOKENS, progress=progress)
    most = SAMPLES if graph.kind is ModelKind.SAMPLES else TOKENS
    rows = data.part(Part.CALIBRATION)
    if not isinstance(rows, TokenData):
        return CalibrationData(samples=rows.x[:most])
    if graph.source:
        pairs = [(window.source, window.inputs) for window in rows.windows if window.source is not None]
        return CalibrationData(pairs=tuple(pairs))
    length = min(window.inputs.size for window in rows.windows)
    windows = np.stack([window.inputs[:length] for window in rows.windows])
    return CalibrationData(windows=windows[: max(1, most // length)])
