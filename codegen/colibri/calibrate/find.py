"""From what the user asks for to calibration data."""

from __future__ import annotations

from colibri.calibrate.data import SAMPLES, TOKENS, Calibration, CalibrationData, read_calibration, require_sha256
from colibri.calibrate.own_text import own_text
from colibri.errors import shown
from colibri.graph.graph import Graph, ModelKind
from colibri.progress import Progress, unseen


def find_calibration(graph: Graph, asked: Calibration, progress: Progress = unseen) -> CalibrationData:
    """Read the file, or let the model write.

    Args:
        graph: in fp32, pruned and folded as it will be; it is not changed.

    Raises:
        BadInput: as `read_calibration`, or another hash than the recipe says.
        UsageError: a limit below one window, or no file for a model that writes nothing on its own.
    """
    if asked.file is None:
        return own_text(graph, asked.limit, progress=progress)
    most = asked.limit
    if most is None and not asked.sha256:  # what a recipe names is as large as it was
        most = SAMPLES if graph.kind is ModelKind.SAMPLES else TOKENS
    data = read_calibration(asked.file, graph, most)
    require_sha256(data, asked.sha256, shown(str(asked.file), 300))
    return data
