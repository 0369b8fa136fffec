"""The models inside an ELF file: found by their magic, split by the section tables of `model.bin` and `hot.bin`."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from colibri.emit.model_bin import ENTRY, HEADER, MAGIC, NO_INDEX, VERSION, SectionKind
from colibri.errors import BadInput, printable
from colibri.footprint.elf import ElfSection, Image

_SUFFIX, _HOT = "_bin", "_hot"


@dataclass(frozen=True)
class Run:
    """Some bytes of a model.

    Attributes:
        start: bytes from the start of the model.
        bytes: its length.
        path: rows of the report, from the outside in.
    """

    start: int
    bytes: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class EmbeddedModel:
    """One `model.bin` in an image, or the `hot.bin` beside one.

    Attributes:
        prefix: of the C names; both files of a model have the same.
        name: from the manifest, as is ``scheme``.
        section: output section that it lies in.
        address: run address of its first byte.
        bytes: its length.
        runs: ascending, without overlap; between them is alignment.
    """

    prefix: str
    name: str
    scheme: str
    section: str
    address: int
    bytes: int
    runs: tuple[Run, ...]


def find_models(path: Path, image: Image) -> tuple[EmbeddedModel, ...]:
    """Every model in an image, by address: a symbol ``PREFIX_bin`` at the first byte of a `model.bin`.

    ``PREFIX_hot_bin`` is of the model ``PREFIX`` when that is there too, with the same name and scheme.

    Raises:
        BadInput: a model of another format version, or a damaged one.
    """
    sections = {section.name: section for section in image.sections if section.stored}
    found: dict[int, EmbeddedModel] = {}
    with path.open("rb") as stream:
        for symbol in image.table:
            section = sections.get(symbol.section)
            if section is None or not symbol.name.endswith(_SUFFIX) or symbol.value in found:
                continue
            if section.address <= symbol.value and symbol.value + HEADER.size <= section.end:
                prefix = symbol.name.removesuffix(_SUFFIX)
                model = _read(stream, section, symbol.value, prefix, f"{path.name}, {symbol.name}")
                if model is not None:
                    found[symbol.value] = model
    files = [found[address] for address in sorted(found)]
    known = {(model.prefix, model.name, model.scheme) for model in files}
    whole = [(model.prefix.removesuffix(_HOT), model.name, model.scheme) for model in files]
    return tuple(
        replace(model, prefix=owner[0]) if owner in known else model for model, owner in zip(files, whole, strict=True)
    )


def _read(stream: BinaryIO, section: ElfSection, address: int, prefix: str, where: str) -> EmbeddedModel | None:
    stream.seek(section.offset + address - section.address)
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size or not head.startswith(MAGIC):
        return None
    _, version, header_bytes, file_bytes, table_at, count, table_crc, _, _, crc = HEADER.unpack(head)
    if version != VERSION:
        what = f"model.bin of format {version}, this Colibri reads {VERSION}"
        raise BadInput(what, where=where, hint="use the Colibri that made the file")
    damaged = BadInput("model.bin is damaged", where=where, hint="build the program again")
    room = section.end - address
    if crc != zlib.crc32(head[:-4]) or header_bytes != HEADER.size or table_at != HEADER.size or file_bytes > room:
        raise damaged
    end_of_table = HEADER.size + count * ENTRY.size
    if end_of_table > file_bytes:
        raise damaged
    table = stream.read(count * ENTRY.size)
    if len(table) != count * ENTRY.size or zlib.crc32(table) != table_crc:
        raise damaged
    runs, manifest, position = [Run(0, end_of_table, ("header and table",))], b"", end_of_table
    for start, length, _, kind, layer, expert in ENTRY.iter_unpack(table):
        if start < position or start + length > file_bytes:
            raise damaged
        position = start + length
        if kind == SectionKind.MANIFEST:
            stream.seek(section.offset + address - section.address + start)
            manifest = stream.read(length)
        runs.append(Run(start, length, _path(kind, layer, expert)))
    try:
        facts = json.loads(manifest)
        name, scheme = printable(str(facts["name"])), printable(str(facts["scheme"]))
    except (ValueError, LookupError, TypeError):
        raise damaged from None
    return EmbeddedModel(prefix, name, scheme, section.name, address, file_bytes, tuple(runs))


def _path(kind: int, layer: int, expert: int) -> tuple[str, ...]:
    """Rows as `package.json` would name them, as far as the table says: it does not tell a norm from a router."""
    if kind == SectionKind.MANIFEST:
        return ("manifest",)
    if kind == SectionKind.EXPERT:
        return (f"layer {layer}", f"expert {expert}")
    return ("outside the layers",) if layer == NO_INDEX else (f"layer {layer}", "all but experts")
