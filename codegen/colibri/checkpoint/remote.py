"""Checkpoints behind a URL (``s3://``, ``hf://``, ``https://``, …), read by ranges through fsspec.

What lies behind a URL is fetched whole, into a temporary file, only where its server can't give a part of it.
"""

from __future__ import annotations

import errno
import re
import tempfile
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colibri.checkpoint.files import LocalFile
from colibri.checkpoint.untrusted import is_there
from colibri.errors import BadInput, ToolMissing, shown

if TYPE_CHECKING:
    import fsspec

_SCHEME = re.compile(r"(?<![^:])([a-z][a-z0-9+.-]+):/(?!/)")  # of the first and of each chained part
_ROOTED = re.compile(r"(?<![^:])(file|local|memory)://(?!/)")
_ODD = re.compile(r"[%?#*\[\]]")  # what a server or fsspec would read as more than a name
_SECRET = re.compile(r"(?<=://)[^/@]*@|[?#].*?(?=::|$)")
_WEB = re.compile(r"(?:^|(?<=::))(https?)://")
_HTTP = {"http", "https"}
_SILENCE = 60.0  # seconds
_EXTRA = "pip install 'colibri-firmware[remote]'"


def url_of(path: Path) -> str | None:
    """Return the URL that a path was made of, or None where it is a path of this machine.

    Of two slashes behind a scheme a `Path` keeps one.

    >>> url_of(Path("s3://bucket/model")), url_of(Path("file:///tmp/m")), url_of(Path("models/m"))
    ('s3://bucket/model', 'file:///tmp/m', None)
    """
    text = str(path)
    if _SCHEME.match(text) is None or is_there(path):
        return None
    return _ROOTED.sub(r"\1:///", _SCHEME.sub(r"\1://", text))


def public(url: str) -> str:
    """Return a URL without the passwords and signatures that may be in it, fit for one line."""
    return shown(_SECRET.sub("", url))


def last_name(url: str) -> str:
    """Return the last part of a URL's path; of a chained one that in the archive, or else the archive's.

    >>> last_name("s3://bucket/my-model/"), last_name("zip://a/m::https://h/b.zip?key=1"), last_name("zip://::file:///b")
    ('my-model', 'm', 'b')
    """
    parts = (part.rstrip("/").rpartition("/")[2] for part in public(url).split("::"))
    return next((part for part in parts if part and not part.endswith(":")), "")


class RemoteFolder:
    """A folder behind a URL."""

    def __init__(self, url: str, known: Collection[str]) -> None:
        """Connect.

        Args:
            url: of the folder.
            known: names that are asked for where the server does not list a folder.

        Raises:
            ToolMissing: fsspec, or what it needs for this scheme, is not installed.
            BadInput: an unknown scheme, or nobody answers.
        """
        try:
            import fsspec
        except ImportError:
            raise ToolMissing("URLs need the package `fsspec`", where=public(url), hint=_EXTRA) from None
        self.where = public(url)
        self._known = known
        self._fetched: tempfile.TemporaryDirectory[str] | None = None
        self._copies: dict[str, LocalFile] = {}
        with _faults_of(self.where):
            self._system, self._root = fsspec.core.url_to_fs(url, **_patience(url))

    def names(self) -> set[str]:
        """As `Folder.names`."""
        found: list[str] = []
        try:
            with _faults_of(self.where):
                found = self._system.ls(self._root, detail=False)
        except BadInput:
            if not any(self.has(name) for name in self._known):
                raise
        names = {path.rstrip("/").rpartition("/")[2] for path in found}
        return names or {name for name in self._known if self.has(name)}

    def has(self, name: str) -> bool:
        """As `Folder.has`."""
        try:
            with _faults_of(self.where):
                return self._system.info(self._place(name))["type"] == "file"  # type: ignore[no-any-return]
        except BadInput:
            return False

    def file(self, name: str) -> RemoteFile | LocalFile:
        """As `Folder.file`."""
        place, where = self._place(name), f"{self.where}/{shown(name)}"
        with _faults_of(where):
            info = self._system.info(place)
        size = info.get("size")
        if type(size) is int and size >= 0 and info.get("partial", True):
            file = RemoteFile(self._system, place, where, size)
            if not _HTTP & {*_names(self._system.protocol)} or file.gives_parts():
                return file
        if self._fetched is None:
            self._fetched = tempfile.TemporaryDirectory(prefix="colibri-")
        if name not in self._copies:
            copy = Path(self._fetched.name) / str(len(self._copies))
            with _faults_of(where):
                self._system.get_file(place, str(copy))
            self._copies[name] = LocalFile(copy, where)
        return self._copies[name]

    def _place(self, name: str) -> str:
        if _ODD.search(name):
            raise BadInput(f"'{shown(name)}' is no plain name of a file", where=self.where)
        return f"{self._root.rstrip('/')}/{name}"


class RemoteFile:
    """A file behind a URL, of which parts can be read."""

    def __init__(self, system: fsspec.AbstractFileSystem, place: str, where: str, size: int) -> None:
        """Take what `RemoteFolder.file` found."""
        self._system = system
        self._place = place
        self.where = where
        self.size = size

    def gives_parts(self) -> bool:
        """Return whether the end of the file can be had alone: not every web server says so, or does what it says."""
        try:
            return len(self.read(self.size - 1, 1)) == 1 if self.size > 1 else False
        except BadInput:
            return False

    def read(self, begin: int, count: int) -> bytearray:
        """As `Bytes.read`."""
        if not 0 <= begin <= self.size - count or count < 0:
            raise BadInput(f"has no {count} bytes at {begin}, only {self.size} in all", where=self.where)
        if not count:
            return bytearray()
        with _faults_of(self.where), self._system.open(self._place, "rb", cache_type="none", size=self.size) as file:
            file.seek(begin)
            raw = bytearray(file.read(count))
        if len(raw) != count:
            raise BadInput(f"gave {len(raw)} of {count} bytes at {begin}", where=self.where, hint="try again")
        return raw


def _patience(url: str) -> dict[str, Any]:
    """Options of web servers: all of a file may take hours, where aiohttp allows five minutes; silence may not."""
    schemes = set(_WEB.findall(url))
    if not schemes:
        return {}
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE, sock_read=_SILENCE)
    return {scheme: {"client_kwargs": {"timeout": timeout}} for scheme in schemes}


def _names(protocol: str | tuple[str, ...]) -> tuple[str, ...]:
    return (protocol,) if isinstance(protocol, str) else protocol


@contextmanager
def _faults_of(where: str) -> Generator[None, None, None]:
    """Turn a failure of fsspec into one line: each of its file systems raises what its own library does."""
    try:
        yield
    except (BadInput, ToolMissing):
        raise
    except FileNotFoundError as error:
        cause = error.__cause__  # of a web server's file: whatever went wrong when its length was asked for
        if getattr(cause, "status", 404) != 404 or (isinstance(cause, OSError) and cause.errno != errno.ENOENT):
            raise BadInput(f"cannot be read: {_said(cause or error)}", where=where) from None
        raise BadInput("no such file", where=where) from None
    except ImportError as error:
        raise ToolMissing(f"this URL needs another package: {shown(str(error))}", where=where, hint=_EXTRA) from None
    except Exception as error:
        raise BadInput(f"cannot be read: {_said(error)}", where=where) from None


def _said(error: BaseException) -> str:
    return shown(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
