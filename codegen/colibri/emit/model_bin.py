"""What stands where in `model.bin`, byte by byte as `runtime_c/SPEC.md` says."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import IntEnum

from colibri.graph.graph import Graph
from colibri.graph.weights import Vector
from colibri.package import Section
from colibri.passes.pack import Layouts, aligned, vector_bytes

MAGIC = b"COLIBRI\0"
VERSION = 2
HEADER = struct.Struct("<8sIIQQII16sII")
ENTRY = struct.Struct("<QQIIII")
NO_INDEX = 0xFFFFFFFF


class SectionKind(IntEnum):
    """Third field of a section's entry."""

    WEIGHTS = 1
    EXPERT = 2
    MANIFEST = 3


@dataclass(frozen=True)
class Part:
    """Weights that lie together.

    Attributes:
        name: row of the report.
        layer, expert: `NO_INDEX` where there is none.
        weights: their names, in order.
    """

    name: str
    kind: SectionKind
    layer: int
    expert: int
    weights: list[str]


@dataclass(frozen=True)
class ModelBin:
    """What stands where in the file, known before a weight is read.

    Attributes:
        length: of the whole file, in bytes.
        offsets: weight name to its start in the file.
        sections: for the report, every byte but alignment accounted for.
        abi_hash: 16 bytes over the canonical layout; code and file must agree in it.
        parts: in the order of the file; each is a section of it, and the manifest is the last.
        manifest: UTF-8 JSON that describes the model.
    """

    length: int
    offsets: dict[str, int]
    sections: tuple[Section, ...]
    abi_hash: bytes
    parts: tuple[Part, ...]
    manifest: bytes


def _parts(graph: Graph, wanted: Container[str]) -> list[Part]:
    """Wanted weights grouped by report row, in the order of first use; each expert is a part of its own."""
    parts: dict[str, Part] = {}
    seen: set[str] = set()

    def add(part: Part, names: list[str]) -> None:
        group = parts.setdefault(part.name, part)
        group.weights.extend(name for name in names if name not in seen and name in wanted)
        seen.update(names)

    for op in graph.ops:
        layer = NO_INDEX if op.layer is None else op.layer
        if op.weights():
            add(Part(op.part, SectionKind.WEIGHTS, layer, NO_INDEX, []), list(op.weights().values()))
        for slots in op.experts():
            names = list(slots.values())
            number = int(names[0].split(".")[-2])
            add(Part(f"{op.part} / expert {number}", SectionKind.EXPERT, layer, number, []), names)
    return [part for part in parts.values() if part.weights]


def plan_model_bin(
    graph: Graph, layouts: Layouts, manifest: bytes, abi_extra: str, wanted: Container[str] | None = None
) -> ModelBin:
    """Give all weights, or some, their places; none is read.

    Args:
        wanted: names of the weights that go into this file; None for all.
        manifest: UTF-8 JSON that describes the model; the last section.
        abi_extra: what else the C code fixes (context, batch, …); part of the ABI hash.
    """
    parts = _parts(graph, graph.weights if wanted is None else wanted)
    table = HEADER.size + (len(parts) + 1) * ENTRY.size
    place = aligned(table)
    offsets: dict[str, int] = {}
    sections = [Section("header and table", "header and table", 0, table)]
    canonical = [f"colibri model.bin {VERSION}", abi_extra]
    for part in parts:
        for name in part.weights:
            weight = graph.weights[name]
            offsets[name] = place
            if isinstance(weight, Vector):
                size = vector_bytes(weight)
                canonical.append(f"{name} f32{list(weight.values.shape)} @{place}")
            else:
                size = layouts.matrices[name].bytes
                canonical.append(f"{name} {layouts.matrices[name].describe()} @{place}")
            sections.append(Section(name, part.name, place, size))
            place += aligned(size)
    sections.append(Section("manifest", "manifest", place, len(manifest)))
    total = place + aligned(len(manifest))
    abi_hash = hashlib.sha256("\n".join(canonical).encode()).digest()[:16]
    return ModelBin(total, offsets, tuple(sections), abi_hash, tuple(parts), manifest)


def header_and_table(made: ModelBin, checksums: Sequence[int]) -> bytes:
    """The beginning of the file.

    Args:
        checksums: CRC-32 of each part, with the padding behind each of its weights.
    """
    ends = {section.name: section.offset + aligned(section.bytes) for section in made.sections}
    entries = []
    for part, checksum in zip(made.parts, checksums, strict=True):
        start, end = made.offsets[part.weights[0]], ends[part.weights[-1]]
        entries.append(ENTRY.pack(start, end - start, checksum, part.kind, part.layer, part.expert))
    last, text = made.sections[-1], made.manifest
    entries.append(ENTRY.pack(last.offset, len(text), zlib.crc32(text), SectionKind.MANIFEST, NO_INDEX, NO_INDEX))
    table = b"".join(entries)
    fields = HEADER.size, made.length, HEADER.size, len(entries), zlib.crc32(table), made.abi_hash
    head = HEADER.pack(MAGIC, VERSION, *fields, 0, 0)[:-4]
    return head + struct.pack("<I", zlib.crc32(head)) + table
