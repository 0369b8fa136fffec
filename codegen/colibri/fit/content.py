"""What a search is about, by its bytes: paths say nothing of what was put there since."""

from __future__ import annotations

import hashlib
from pathlib import Path

from colibri.checkpoint.remote import url_of
from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput, shown
from colibri.scratch import write_scratch

_DATA_BYTES = 512 << 20


def checkpoint_digest(path: Path) -> str:
    """SHA-256 of all files of a checkpoint with their names; of one behind a URL only of that.

    Raises:
        BadInput: unreadable.
    """
    digest = hashlib.sha256()
    if url := url_of(path):
        digest.update(url.encode())
        return digest.hexdigest()
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    try:
        for one in files:
            digest.update(f"{one.name} {one.stat().st_size}\n".encode())
            with one.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", where=shown(str(path), 300)) from None
    return digest.hexdigest()


def readable_again(path: Path, scratch: Path) -> tuple[Path, str]:
    """A data file that workers can read, and its SHA-256; of a pipe a copy.

    Raises:
        BadInput: unreadable or too large.
    """
    raw = read_bounded(path, _DATA_BYTES, pipe=True)
    digest = hashlib.sha256(raw).hexdigest()
    if path.is_file():
        return path.absolute(), digest
    copy = scratch / f"data{path.suffix or '.npy'}"
    write_scratch(copy, raw)
    return copy, digest
