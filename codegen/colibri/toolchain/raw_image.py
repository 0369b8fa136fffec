"""The bytes of a region of flash as a file, where a compiler's own tools cannot write it."""

from __future__ import annotations

from pathlib import Path

from colibri.boards.profile import Region
from colibri.toolchain.uf2 import stored_pieces


def write_raw_image(image: Path, target: Path, region: Region) -> None:
    """Write what an ELF file stores in a region, from its first byte to its last, beside ``target``; then rename it.

    Raises:
        BadInput: not an ELF file.
    """
    span = range(region.origin, region.origin + region.length)
    pieces = sorted((start, raw) for start, raw in stored_pieces(image) if start in span)
    begin = min((start for start, _ in pieces), default=region.origin)
    whole = bytearray(max((start + len(raw) for start, raw in pieces), default=begin) - begin)
    for start, raw in pieces:
        whole[start - begin : start - begin + len(raw)] = raw
    beside = target.with_suffix(".new")
    beside.write_bytes(whole)
    beside.replace(target)
