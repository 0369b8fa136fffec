"""Where a report comes from: a built package, a report in JSON, or a program on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from colibri.checkpoint.untrusted import is_folder, is_regular_file, is_there, read_bounded
from colibri.errors import BadInput, shown
from colibri.footprint.groups import Part
from colibri.footprint.report import SCHEMA, Report, make_report
from colibri.saved_json import decode_saved

_REPORT_BYTES = 256 << 20
_ELF = b"\x7fELF"


def read_report(path: Path) -> Report:
    """The report of a package's folder, of the JSON that `colibri report --json` printed, or of an ELF file.

    Raises:
        BadInput: it is none of these, or a damaged one.
        ColibriError: as `make_report` does.
    """
    if is_folder(path):
        return make_report(path)
    if not is_there(path):
        hint = "give a package, a report in JSON or an ELF file"
        raise BadInput("no such file or folder", where=shown(str(path), 300), hint=hint)
    if _is_elf(path):
        from colibri.footprint.foreign import report_on_elf

        return report_on_elf(path)
    raw = read_bounded(path, _REPORT_BYTES, pipe=True)
    if raw.lstrip()[:1] == b"{":
        return _decode(raw, path)
    raise BadInput("neither a package, nor a report in JSON, nor an ELF file", where=str(path))


def read_alike(path: Path, other: Path) -> Report:
    """Like `read_report`, but of a package only what its program says alone, when ``other`` is an ELF file.

    So both sides of a comparison have the same rows: an ELF file knows experts and functions, a package matrices too.
    """
    if is_folder(path) and _is_elf(other):
        from colibri.footprint.foreign import report_on_elf

        make_report(path)
        for name in ("product.elf", "oversize.elf"):
            if (elf := path / "build" / name).is_file():
                return report_on_elf(elf)
    return read_report(path)


def _is_elf(path: Path) -> bool:
    try:
        if not is_regular_file(path):  # of a pipe, what is read is gone
            return False
        with path.open("rb") as stream:
            return stream.read(4) == _ELF
    except OSError:
        return False


def _decode(raw: bytes, path: Path) -> Report:
    hint = "make one with `colibri report --json`, or give the folder of a package"
    where = shown(str(path), 300)
    report = decode_saved(raw, Report, SCHEMA, noun="report", where=where, hint=hint)
    _check_sums(report, lambda what: BadInput(f"{what}: the rows do not sum", where=where, hint=hint))
    _check_regions(report, lambda what: BadInput(what, where=where, hint=hint))
    return report


def _check_regions(report: Report, failure: Callable[[str], BadInput]) -> None:
    if not report.regions:
        raise failure("a report without a region")
    if len({region.name for region in report.regions}) < len(report.regions):
        raise failure("a report in which a region stands twice")
    for one in report.regions:
        if one.over != (max(0, one.used + one.reserve - one.limit) if one.limit else 0):
            raise failure(f"{one.name}: what is over is not what is used and reserved above the limit")
        if one.printed not in (None, one.used):
            raise failure(f"{one.name}: the linker printed another number than is used")


def _check_sums(report: Report, failure: Callable[[str], BadInput]) -> None:
    def check(part: Part, where: str) -> None:
        if part.parts and sum(inner.bytes for inner in part.parts) != part.bytes:
            raise failure(where)
        for inner in part.parts:
            check(inner, f"{where} / {inner.name}")

    for region in report.regions:
        if sum(group.bytes for group in region.groups) != region.used:
            raise failure(region.name)
        for group in region.groups:
            check(Part(group.kind, group.bytes, group.parts), f"{region.name} / {group.kind}")
