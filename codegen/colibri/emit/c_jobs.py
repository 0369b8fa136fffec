"""Write what several threads share: a job is a C function that every thread calls for parts of its own.

A job finds all that it needs from the context and the layer's descriptor, like the block's function itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

PARAMS = ", uint32_t part, uint32_t parts"  # of a kernel that computes a part alone
ARGUMENTS = ", part, parts"


@dataclass
class Job:
    """Statements that run once for each part."""

    name: str
    lines: list[str] = field(default_factory=list)


def names(lines: list[str], known: Mapping[str, str]) -> list[str]:
    """Those of the known names that occur in C statements, sorted; members of structs are none."""
    found = set(re.findall(r"(?<![\w.>])[A-Za-z_]\w*", "\n".join(lines)))
    return sorted(found & known.keys())


def part_bounds(count: int | str, unit: int) -> tuple[str, str]:
    """Where a part of ``0 .. count`` begins and ends, at multiples of ``unit``, as C."""
    first, behind = (f"colibri_part_of({count}, {unit}, {part}, parts)" for part in ("part", "part + 1"))
    return first, behind


def part_loop(kind: str, name: str, count: int | str, step: int, unit: int) -> list[str]:
    """Head of a loop over one part of ``0 .. count``, which is cut at multiples of ``unit`` only."""
    cast = "" if kind == "uint32_t" else f"({kind})"
    bound = f"{cast}colibri_part_of({count}, {unit}, %s, parts)"
    return [
        f"const {kind} end = {bound % 'part + 1'};",
        f"for ({kind} {name} = {bound % 'part'}; {name} < end; {step_of(name, step)}) {{",
    ]


def step_of(name: str, step: int) -> str:
    """How a loop goes on; a step of 0 is one at a time."""
    return f"{name}++" if step == 0 else f"{name} += {step}"
