"""Where a report comes from: a built package, a report in JSON, or a program on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from colibri.errors import BadInput
from colibri.footprint.report import SCHEMA, Part, Report, make_report

_ELF = b"\x7fELF"


def read_report(path: Path) -> Report:
    """The report of a package's folder, of the JSON that `colibri report --json` printed, or of an ELF file.

    Raises:
        BadInput: it is none of these, or a damaged one.
        ColibriError: as `make_report` does.
    """
    if path.is_dir():
        return make_report(path)
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
            if start != _ELF and start.lstrip()[:1] == b"{":
                return _decode(start + stream.read(), path)
    except FileNotFoundError:
        hint = "give a package, a report in JSON or an ELF file"
        raise BadInput("no such file or folder", where=str(path), hint=hint) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", where=str(path)) from None
    if start == _ELF:
        from colibri.footprint.foreign import report_on_elf

        return report_on_elf(path)
    raise BadInput("neither a package, nor a report in JSON, nor an ELF file", where=str(path))


def read_alike(path: Path, other: Path) -> Report:
    """Like `read_report`, but of a package only what its program says alone, when ``other`` is an ELF file.

    So both sides of a comparison have the same rows: an ELF file knows experts and functions, a package matrices too.
    """
    if path.is_dir() and _is_elf(other):
        from colibri.footprint.foreign import report_on_elf

        make_report(path)
        for name in ("product.elf", "oversize.elf"):
            if (elf := path / "build" / name).is_file():
                return report_on_elf(elf)
    return read_report(path)


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) == _ELF
    except OSError:
        return False


def _decode(raw: bytes, path: Path) -> Report:
    hint = "make one with `colibri report --json`, or give the folder of a package"
    try:
        report = msgspec.json.decode(raw, type=Report)
    except msgspec.DecodeError as error:
        raise BadInput(f"not a report: {error}", where=str(path), hint=hint) from None
    if report.schema != SCHEMA:
        raise BadInput(f"report schema {report.schema}, this Colibri reads {SCHEMA}", where=str(path), hint=hint)
    _check_sums(report, lambda what: BadInput(f"{what}: the rows do not sum", where=str(path), hint=hint))
    return report


def _check_sums(report: Report, failure: Callable[[str], BadInput]) -> None:
    def check(part: Part, where: str) -> None:
        if part.bytes < 0 or (part.parts and sum(inner.bytes for inner in part.parts) != part.bytes):
            raise failure(where)
        for inner in part.parts:
            check(inner, f"{where} / {inner.name}")

    for region in report.regions:
        if sum(group.bytes for group in region.groups) != region.used:
            raise failure(region.name)
        for group in region.groups:
            check(Part(group.kind, group.bytes, group.parts), f"{region.name} / {group.kind}")
