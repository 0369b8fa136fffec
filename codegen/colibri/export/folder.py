"""Write an export: whole or not at all, and never over what somebody else wrote."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from colibri import __version__
from colibri.checkpoint.untrusted import decoded, is_there, read_bounded
from colibri.claim import put_in_place
from colibri.emit.writer import resolved_output
from colibri.errors import BadInput, UsageError, no_room, shown
from colibri.export.form import Files

LIST_NAME = ".colibri-export.json"
_LIST_BYTES = 16 << 20
_OTHER = "choose another folder with -o"


class _List(msgspec.Struct, frozen=True):
    """What was written: path to SHA-256. With it a later export knows what it may replace."""

    form: str
    generator: str
    files: dict[str, str]


def write_export(folder: Path, form: str, files: Files) -> None:
    """Write the files beside ``folder``, then rename; an older export in which nothing was changed is replaced.

    Raises:
        BadInput: ``folder`` holds something that no export wrote, or that was changed since.
        UsageError: nothing can be made there.
    """
    folder = resolved_output(folder)
    try:
        _refuse_what_is_not_ours(folder, form)
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".colibri-", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"cannot be made: {error.strerror}", where=str(folder), hint=_OTHER) from None
    try:
        beside.chmod(0o755)
        _fill(beside, form, files)
        put_in_place(beside, folder)
    except OSError as error:
        raise no_room(str(folder), error, f"make room, or {_OTHER}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _fill(folder: Path, form: str, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    listed = _List(form, f"colibri {__version__}", {name: _hash(files[name]) for name in sorted(files)})
    (folder / LIST_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=1) + b"\n")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refuse_what_is_not_ours(folder: Path, form: str) -> None:
    if not is_there(folder):
        return
    where = str(folder)
    if not folder.is_dir():
        raise BadInput("exists and is no folder", where=where, hint=_OTHER)
    if not any(folder.iterdir()):
        return
    path = folder / LIST_NAME
    if not is_there(path):
        raise BadInput("exists and is not an export of Colibri", where=where, hint=_OTHER)
    raw = read_bounded(path, _LIST_BYTES)
    listed = decoded(lambda: msgspec.json.decode(raw, type=_List), what="is damaged", where=str(path), hint=_OTHER)
    if listed.form != form:
        raise BadInput(f"holds an export to '{shown(listed.form, 40)}'", where=where, hint=_OTHER)
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted([*names, *links]):
            file = Path(place, name)
            relative = file.relative_to(folder).as_posix()
            if relative == LIST_NAME:
                continue
            if relative not in listed.files or file.is_symlink() or not file.is_file():
                raise BadInput(
                    f"holds {shown(relative)!r}, which no export wrote", where=where, hint=f"move it out, or {_OTHER}"
                )
            if _hash(file.read_bytes()) != listed.files[relative]:
                raise BadInput(
                    f"{shown(relative)!r} was changed since it was exported",
                    where=where,
                    hint=f"move it out, or {_OTHER}",
                )
