"""What gcc says of the functions of an object: their frames, and whether they call through pointers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "([^"]*)"( shape : ellipse)? \}', re.MULTILINE)
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', re.MULTILINE)
_FRAME = re.compile(r"\\n(\d+) bytes \(([a-z,]+)\)")
_INDIRECT = "__indirect_call"


@dataclass(frozen=True)
class Frame:
    """A function of one object.

    Attributes:
        bytes: of its frame; on x86-64 with its return address.
        bounded: False when it also takes memory whose size only the run knows.
        callees: names of what it calls, those through pointers left out.
        indirect: whether it calls through a pointer.
    """

    bytes: int
    bounded: bool
    callees: frozenset[str] = frozenset()
    indirect: bool = False


def parse_callgraph(text: str) -> dict[str, Frame]:
    """Functions by the names of their symbols, from a file of ``-fcallgraph-info=su``."""
    callees: dict[str, set[str]] = {}
    for source, target in _EDGE.findall(text):
        callees.setdefault(_symbol(source), set()).add(_symbol(target))
    frames = {}
    for title, label, outside in _NODE.findall(text):
        frame = _FRAME.search(label)
        if outside or frame is None:
            continue
        called = callees.get(_symbol(title), set())
        frames[_symbol(title)] = Frame(
            int(frame[1]), frame[2] != "dynamic", frozenset(called - {_INDIRECT}), _INDIRECT in called
        )
    return frames


def _symbol(title: str) -> str:
    """Titles of static functions begin with the source: ``src/model.c:add_24``."""
    return title.rsplit(":", 1)[-1]


class CompilerFrames:
    """The call graph files beside the objects of a package.

    Args:
        build: the package's ``build`` folder.
    """

    def __init__(self, build: Path) -> None:
        self._build = build
        self._read: dict[Path, dict[str, Frame]] = {}
        self._by_stem: dict[str, list[Path]] = {}
        for path in sorted((build / "library").rglob("*.ci")):
            self._by_stem.setdefault(path.stem, []).append(path)

    def of(self, object_: str, function: str) -> Frame | None:
        """The frame of a function; None when no compiler that says it has made the object.

        Args:
            object_: as the linker's map names it: ``build/FOLDER/FILE.o`` or ``build/libNAME.a(FILE.o)``.
        """
        archive, _, member = object_.rstrip(")").partition("(")
        if member:
            own = archive.startswith("build/")
            paths = self._by_stem.get(Path(member).stem, []) if own else []
        else:
            # What the linker makes itself, or a map of another form, names no object.
            paths = [(self._build.parent / archive).with_suffix(".ci")] if archive.endswith(".o") else []
        # An archive drops the folders of its members: of two with one name, the one that has the function.
        found = [frame for path in paths if (frame := self._file(path).get(function)) is not None]
        return max(found, key=lambda frame: frame.bytes, default=None)

    def _file(self, path: Path) -> dict[str, Frame]:
        if path not in self._read:
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            self._read[path] = parse_callgraph(text)
        return self._read[path]
