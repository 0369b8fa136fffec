"""Names for the ops of a package, as a person types them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colibri.boards.words import nearest
from colibri.errors import UsageError, shown
from colibri.package import Package


@dataclass(frozen=True)
class NamedOp:
    """An op.

    Attributes:
        name: ``layer1.experts``; ``layer1.quantise.2`` is the second of this kind in its layer.
        index: in `Package.ops`.
        within: its place among the ops of its block.
        weights: symbol behind the prefix and offset of the weights that are its own; None when it has none, or several.
    """

    name: str
    index: int
    within: int
    weights: tuple[str, int] | None


def named_ops(package: Package) -> list[NamedOp]:
    """All ops in the order in which they run: by their weight's name, or else by their kind."""
    places = {
        section.name: (symbol, section.offset) for symbol, _, sections in package.weight_files() for section in sections
    }
    seen: dict[str, int] = {}
    named: list[NamedOp] = []
    for index, op in enumerate(package.ops):
        first = index == 0 or (op.layer, op.block) != (package.ops[index - 1].layer, package.ops[index - 1].block)
        short = op.name.rpartition(".")[2] if op.name in places else _snake(op.kind)
        name = f"layer{op.layer}.{short}" if op.layer >= 0 else short
        seen[name] = seen.get(name, 0) + 1
        name = name if seen[name] == 1 else f"{name}.{seen[name]}"
        named.append(NamedOp(name, index, 0 if first else named[-1].within + 1, places.get(op.name)))
    return named


def chosen(ops: Sequence[NamedOp], wanted: Sequence[str]) -> Iterator[NamedOp]:
    """The ops of these names.

    Raises:
        UsageError: there is no such op.
    """
    by_name = {op.name: op for op in ops}
    for name in wanted:
        if name not in by_name:
            hint = nearest(name, by_name)
            hint = hint if hint.startswith("did you mean") else "see --list-ops"
            raise UsageError(f"no op '{shown(name)}'", where="--break", hint=hint)
        yield by_name[name]


def _snake(kind: str) -> str:
    """
    >>> _snake("RmsNorm")
    'rms_norm'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
