"""The user's own wishes where things go: a small TOML file.

    [memory]                       # states and buffers
    "layers.0.*" = "dtcm"
    [weights]                      # tensors
    "layers.*.router" = "flash"
    [kernels]                      # C functions; a region of RAM has them copied there at start-up
    "linear_w4a8_*" = "itcm"

Names are patterns as the shell has them; `colibri report --full` and `package.json` show the names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from colibri.boards.words import nearest
from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput

_TABLES = ("memory", "weights", "kernels")
_BYTES = 1 << 20


@dataclass(frozen=True)
class Pins:
    """For each table of the file, pattern to region."""

    source: str = ""
    memory: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, str] = field(default_factory=dict)


def load_pins(path: Path) -> Pins:
    """Read a file of pins.

    Raises:
        BadInput: unreadable, not TOML, or not of this shape.
    """
    where = str(path)
    try:
        tables = tomllib.loads(read_bounded(path, _BYTES).decode())
    except UnicodeDecodeError:
        raise BadInput("not UTF-8 text", where=where) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"not TOML: {error}", where=where, hint='lines look like "layers.0.*" = "dtcm"') from None
    for name, table in tables.items():
        if name not in _TABLES:
            raise BadInput(f"{name[:40]}: unknown table", where=where, hint=nearest(name[:40], _TABLES))
        if not isinstance(table, dict):
            raise BadInput(f"{name}: expected a table", where=where, hint=f"write [{name}]")
        for pattern, region in table.items():
            if not isinstance(region, str):
                what = f"{name}: {pattern[:40]!r} has no name of a region"
                raise BadInput(what, where=where, hint="write names with dots in quotes")
    return Pins(where, *(tables.get(name, {}) for name in _TABLES))


def pinned(patterns: Mapping[str, str], names: Iterable[str], regions: Collection[str], where: str) -> dict[str, str]:
    """Name to region, for the names that a pattern fits.

    Args:
        regions: that may be chosen.
        where: the file and its table, for messages.

    Raises:
        BadInput: a pattern that fits nothing, a region that may not be chosen, or two regions for one name.
    """
    found: dict[str, str] = {}
    known = list(names)
    for pattern, region in patterns.items():
        if region not in regions:
            what = f"{pattern[:40]!r}: no region {region[:40]!r} for this"
            raise BadInput(what, where=where, hint=nearest(region[:40], regions) if regions else "the board has none")
        mine = [name for name in known if fnmatchcase(name, pattern)]
        if not mine:
            raise BadInput(f"{pattern[:40]!r} fits no name", where=where, hint=_short(nearest(pattern[:40], known)))
        for name in mine:
            if found.setdefault(name, region) != region:
                raise BadInput(f"{name!r} is to be in {found[name]!r} and in {region!r}", where=where)
    return found


def _short(hint: str) -> str:
    return hint if len(hint) <= 200 else "package.json has all names"
