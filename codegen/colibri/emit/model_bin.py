"""Write `model.bin`, byte by byte as `runtime_c/SPEC.md` says."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Container
from dataclasses import dataclass
from enum import IntEnum

from colibri.graph.graph import Graph
from colibri.graph.weights import Matrix
from colibri.package import Section
from colibri.passes.pack import Layouts, aligned, pack_matrix, pack_vector

MAGIC = b"COLIBRI\0"
VERSION = 1
HEADER = struct.Struct("<8sIIQQII16sII")
ENTRY = struct.Struct("<QQIIII")
NO_INDEX = 0xFFFFFFFF


class SectionKind(IntEnum):
    """Third field of a section's entry."""

    WEIGHTS = 1
    EXPERT = 2
    MANIFEST = 3


@dataclass(frozen=True)
class ModelBin:
    """The file and what stands where in it.

    Attributes:
        data: the whole file.
        offsets: weight name to its start in the file.
        sections: for the report, every byte but alignment accounted for.
        abi_hash: 16 bytes over the canonical layout; code and file must agree in it.
    """

    data: bytes
    offsets: dict[str, int]
    sections: tuple[Section, ...]
    abi_hash: bytes


@dataclass
class _Part:
    name: str
    kind: SectionKind
    layer: int
    expert: int
    weights: list[str]


def _parts(graph: Graph, wanted: Container[str]) -> list[_Part]:
    """Wanted weights grouped by report row, in the order of first use; each expert is a part of its own."""
    parts: dict[str, _Part] = {}
    seen: set[str] = set()

    def add(part: _Part, names: list[str]) -> None:
        group = parts.setdefault(part.name, part)
        group.weights += [name for name in names if name not in seen and name in wanted]
        seen.update(names)

    for op in graph.ops:
        layer = NO_INDEX if op.layer is None else op.layer
        if op.weights():
            add(_Part(op.part, SectionKind.WEIGHTS, layer, NO_INDEX, []), list(op.weights().values()))
        for slots in op.experts():
            names = list(slots.values())
            number = int(names[0].split(".")[-2])
            add(_Part(f"{op.part} / expert {number}", SectionKind.EXPERT, layer, number, []), names)
    return [part for part in parts.values() if part.weights]


def build_model_bin(
    graph: Graph, layouts: Layouts, manifest: bytes, abi_extra: str, wanted: Container[str] | None = None
) -> ModelBin:
    """Pack all weights, or some.

    Args:
        wanted: names of the weights that go into this file; None for all.
        manifest: UTF-8 JSON that describes the model; the last section.
        abi_extra: what else the C code fixes (context, batch, …); part of the ABI hash.
    """
    parts = _parts(graph, graph.weights if wanted is None else wanted)
    count = len(parts) + 1
    place = aligned(HEADER.size + count * ENTRY.size)
    offsets: dict[str, int] = {}
    sections = [Section("header and table", "header and table", 0, HEADER.size + count * ENTRY.size)]
    canonical = [f"colibri model.bin {VERSION}", abi_extra]
    body = bytearray()
    entries = []
    start_of_body = place
    for part in parts:
        start = place
        for name in part.weights:
            weight = graph.weights[name]
            offsets[name] = place
            if isinstance(weight, Matrix):
                raw = pack_matrix(weight, layouts.matrices[name])
                canonical.append(f"{name} {layouts.matrices[name].describe()} @{place}")
            else:
                raw = pack_vector(weight)
                canonical.append(f"{name} f32{list(weight.values.shape)} @{place}")
            sections.append(Section(name, part.name, place, len(raw)))
            body += raw + bytes(aligned(len(raw)) - len(raw))
            place += aligned(len(raw))
        content = body[start - start_of_body :]
        entries.append(ENTRY.pack(start, len(content), zlib.crc32(content), part.kind, part.layer, part.expert))
    entries.append(ENTRY.pack(place, len(manifest), zlib.crc32(manifest), SectionKind.MANIFEST, NO_INDEX, NO_INDEX))
    sections.append(Section("manifest", "manifest", place, len(manifest)))
    body += manifest + bytes(aligned(len(manifest)) - len(manifest))
    total = place + aligned(len(manifest))

    abi_hash = hashlib.sha256("\n".join(canonical).encode()).digest()[:16]
    table = b"".join(entries)
    head = HEADER.pack(MAGIC, VERSION, HEADER.size, total, HEADER.size, count, zlib.crc32(table), abi_hash, 0, 0)
    head = head[:-4] + struct.pack("<I", zlib.crc32(head[:-4]))
    data = head + table
    data += bytes(start_of_body - len(data)) + bytes(body)
    assert len(data) == total
    return ModelBin(data, offsets, tuple(sections), abi_hash)
