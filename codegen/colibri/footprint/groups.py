"""Bytes of a region by what they are, and the rows that they consist of."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from colibri.footprint.attribute import GroupKind, Piece

_IN_ADDRESS_ORDER = {GroupKind.WEIGHTS, GroupKind.CONTEXT, GroupKind.STATES}


class Part(msgspec.Struct, frozen=True):
    """A row: some bytes of a group, and what they consist of.

    Attributes:
        bytes: sum over ``parts`` when there are any.
    """

    name: str
    bytes: int
    parts: tuple[Part, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """Bytes of one kind in one region.

    Attributes:
        bytes: in the linked image.
        predicted: what the generator expected before the compiler ran; None when it expects nothing.
        parts: rows that sum to ``bytes``.
        observed: what a run of the test program touched of it; None when no run was watched, or it is not to be seen.
    """

    kind: GroupKind
    bytes: int
    predicted: int | None
    parts: tuple[Part, ...]
    observed: int | None = None


def grouped(pieces: list[Piece], predicted: dict[GroupKind, int]) -> tuple[Group, ...]:
    """Rows of the pieces of one region."""
    groups = []
    for kind in GroupKind:
        mine = [(piece.path, piece.bytes) for piece in pieces if piece.group is kind]
        if mine or kind in predicted:
            parts = _parts(mine, by_size=kind not in _IN_ADDRESS_ORDER)
            groups.append(Group(kind, sum(part.bytes for part in parts), predicted.get(kind), parts))
    return tuple(groups)


def _parts(pieces: Iterable[tuple[tuple[str, ...], int]], *, by_size: bool) -> tuple[Part, ...]:
    """Rows of one level; largest first, or in the order of their addresses."""
    levels: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for (name, *rest), size in pieces:
        levels.setdefault(name, []).append((tuple(rest), size))
    parts = []
    for name, below in levels.items():
        inner = _parts(((path, size) for path, size in below if path), by_size=by_size)
        plain = sum(size for path, size in below if not path)
        if inner and plain:
            inner = (*inner, Part("other", plain))
        parts.append(Part(name, plain if not inner else sum(part.bytes for part in inner), inner))
    return tuple(sorted(parts, key=lambda part: (-part.bytes, part.name)) if by_size else parts)
