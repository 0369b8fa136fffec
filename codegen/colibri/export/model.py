"""Read a package for an export: its C files under names of their own, weights, one golden vector, licences."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from colibri.boards.profile import BoardKind
from colibri.checkpoint.untrusted import is_there, read_bounded
from colibri.emit.literals import comment_text
from colibri.emit.package_text import summary_line
from colibri.errors import BadInput, shown
from colibri.package import Package, load_package
from colibri.vectors import Case, load_vectors

_AGAIN = "generate the package again"
_SOURCE_BYTES = 16 << 20
_VECTORS, _VECTOR_BYTES = "test/vectors.msgpack", 1 << 30
_TOKENIZER, _TOKENIZER_BYTES = "tokenizer.json", 64 << 20
_FILE_NAME = re.compile(r"[A-Za-z0-9_]{1,64}\.[ch]")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_INCLUDED = re.compile(r'^#include "(.*)"$', re.MULTILINE)
_ASKED_FOR = re.compile(r'__has_include\("([^"]*)"\)')  # C itself asks whether such a file is there
_MOST_TOKENS = 64


@dataclass(frozen=True)
class Weights:
    """One file of weights.

    Attributes:
        symbol: of its bytes in C, e.g. ``PREFIX_bin``.
        macro: of its length.
        file: its name in an export: ``PREFIX_model.bin``.
        section: where the linker finds it.
        descriptor: of its checks in C, e.g. ``PREFIX_model``.
    """

    symbol: str
    macro: str
    file: str
    section: str
    descriptor: str
    data: bytes


@dataclass(frozen=True)
class Vector:
    """What one call is asked, and the bits that the reference answers.

    Attributes:
        inputs: tokens (u32) or floats of one call, little-endian.
        outputs: floats, little-endian.
        source: tokens (u32) that are encoded first; empty without an encoder.
    """

    inputs: bytes
    outputs: bytes
    source: bytes = b""

    def words(self) -> tuple[int, ...]:
        """The inputs as 32-bit words."""
        return struct.unpack(f"<{len(self.inputs) // 4}I", self.inputs)

    def source_words(self) -> tuple[int, ...]:
        """The source as tokens."""
        return struct.unpack(f"<{len(self.source) // 4}I", self.source)

    def floats(self) -> tuple[float, ...]:
        """The inputs as floats."""
        return struct.unpack(f"<{len(self.inputs) // 4}f", self.inputs)

    @property
    def digest(self) -> int:
        """FNV-1a, 32 bits, over the outputs word by word, as the examples compute it."""
        return digest(self.outputs)


@dataclass(frozen=True)
class Model:
    """A package as exports see it.

    Attributes:
        headers: public ones, by name: ``PREFIX_model.h``, ``colibri.h`` and, for threads, ``colibri_team.h``.
        sources: path below the folder of sources to content: C files and the headers that they alone include,
            as ``core/access.h``. Options that decide about the bits of floats are set in them too.
        weights: `model.bin`, and `hot.bin` where there is one.
        licence: what the checkpoint says of its own, on one line; empty when nothing.
        runtime_licence: the Apache licence of Colibri's C.
        tokenizer: the checkpoint's `tokenizer.json`; None when it has none.
        cases: all golden vectors.
    """

    package: Package
    headers: dict[str, bytes]
    sources: dict[str, bytes]
    weights: tuple[Weights, ...]
    vector: Vector
    licence: str
    runtime_licence: bytes
    tokenizer: bytes | None
    cases: tuple[Case, ...]

    @property
    def prefix(self) -> str:
        """Of C names."""
        return self.package.prefix

    @property
    def name(self) -> str:
        """Of the library, and of its header and files, wherever a name must clash with nobody's."""
        return f"{self.package.prefix}_model"

    @property
    def title(self) -> str:
        """The checkpoint's name for people: printable ASCII on one line, not fit for any format as it is."""
        return comment_text(self.package.name)

    @property
    def summary(self) -> str:
        """The model in a few words."""
        return summary_line(self.package)

    @property
    def tokens(self) -> bool:
        """Whether it is a language model."""
        return self.package.model.kind == "tokens"

    @property
    def bare(self) -> bool:
        """Whether it is for a board without an operating system."""
        return self.package.board.kind is BoardKind.BARE

    @property
    def portable(self) -> bool:
        """Whether its kernels are plain C, for any processor."""
        return all(path.startswith(("core/", "kernels/portable/")) for path in self.sources if "/" in path)

    @property
    def c_files(self) -> tuple[str, ...]:
        """Paths of the C files among `sources`."""
        return tuple(sorted(path for path in self.sources if path.endswith(".c")))


def digest(data: bytes) -> int:
    """FNV-1a, 32 bits, over little-endian words.

    >>> hex(digest(bytes(4))), hex(digest(b""))
    ('0x50c5d1f', '0x811c9dc5')
    """
    value = 0x811C9DC5
    for (word,) in struct.iter_unpack("<I", data):
        value = (value ^ word) * 0x01000193 & 0xFFFFFFFF
    return value


def read_model(folder: Path) -> Model:
    """Read a package.

    Raises:
        BadInput: it is no package, or damaged: a file is missing, or not of the length that package.json says.
    """
    package = load_package(folder)
    prefix = package.prefix
    own_header = f"{prefix}_model.h"
    headers = {
        own_header: _read(folder, "model.h"),
        "colibri.h": _read(folder, "runtime/include/colibri.h"),
    }
    if package.threads != 1:
        headers["colibri_team.h"] = _read(folder, "runtime/include/colibri_team.h")
    sources = _model_sources(folder, prefix)
    sources |= {path: _read(folder, f"runtime/{path}") for path in _runtime_files(folder)}
    _refuse_missing(folder, headers, sources)
    weights = _weights(folder, package)
    cases = tuple(load_vectors(_read(folder, _VECTORS, _VECTOR_BYTES), shown(str(folder / _VECTORS), 300)))
    return Model(
        package=package,
        headers=headers,
        sources={path: _pinned(text) if path.endswith(".c") else text for path, text in sorted(sources.items())},
        weights=weights,
        vector=_vector(folder, package, cases),
        licence=_licence(folder, package, weights[0].data),
        runtime_licence=_read(folder, "runtime/LICENSE"),
        tokenizer=_read(folder, _TOKENIZER, _TOKENIZER_BYTES) if is_there(folder / _TOKENIZER) else None,
        cases=cases,
    )


def _read(folder: Path, name: str, limit: int = _SOURCE_BYTES) -> bytes:
    return read_bounded(folder / name, limit)


def _damaged(folder: Path, name: str, what: str) -> BadInput:
    return BadInput(what, where=shown(str(folder / name), 300), hint=_AGAIN)


def _runtime_files(folder: Path) -> list[str]:
    """C files of the runtime, its kernels and its questions to the processor, as paths below `runtime/`."""
    found = []
    runtime = folder / "runtime"
    for place in (runtime / "core", *sorted((runtime / "kernels").glob("*")), runtime / "processors"):
        for path in sorted(place.glob("*.[ch]")):
            if not (_FILE_NAME.fullmatch(path.name) and _FOLDER_NAME.fullmatch(place.name)):
                raise _damaged(folder, str(path.relative_to(folder)), "is no file of Colibri")
            found.append(path.relative_to(runtime).as_posix())
    if not any(path.startswith("core/") and path.endswith(".c") for path in found):
        raise _damaged(folder, "runtime/core", "has no C files")
    return found


def _refuse_missing(folder: Path, headers: dict[str, bytes], sources: dict[str, bytes]) -> None:
    for path, text in sources.items():
        code = text.decode(errors="replace")
        for name in sorted({*_INCLUDED.findall(code)} - {*_ASKED_FOR.findall(code)}):
            if name not in headers and name not in sources:
                raise _damaged(folder, path, f"includes {shown(name)}, which is not there")


def _model_sources(folder: Path, prefix: str) -> dict[str, bytes]:
    """The model's own C, the prefix before each name: `src/model.c`, and the layers where they are apart."""
    layers = sorted(path.name for path in (folder / "src").glob("layers*.[ch]"))
    sources = {}
    for name in ("model.c", *layers):
        if not _FILE_NAME.fullmatch(name):
            raise _damaged(folder, f"src/{name}", "is no file of Colibri")
        header = "layers.h" if layers and name != "layers.h" else "model.h"
        text, old = _read(folder, f"src/{name}"), f'#include "{header}"\n'.encode()
        if text.count(old) != 1:
            raise _damaged(folder, f"src/{name}", f"does not include {header}")
        sources[f"{prefix}_{name}"] = text.replace(old, f'#include "{prefix}_{header}"\n'.encode())
    return sources


_PINS = b"""\
/* In its GNU modes gcc fuses a * b + c, whatever the standard's pragma says: this is its own way to forbid it. The bits
 * of every float are part of the model, so the file says so itself, whatever options it is compiled with. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("-ffp-contract=off")
#endif

"""


def _pinned(text: bytes) -> bytes:
    """A C file that computes no fused multiply-add, if it computes floats at all."""
    return _PINS + text if b'#include "kernels/' in text else text


def _weights(folder: Path, package: Package) -> tuple[Weights, ...]:
    prefix = package.prefix
    words = {
        "bin": ("model.bin", "MODEL", "model", "model"),
        "hot_bin": ("hot.bin", "HOT", "hot_weights", "hot_model"),
    }
    found = []
    for symbol, length, _ in package.weight_files():
        name, macro, section, descriptor = words[symbol]
        data = _read(folder, name, length)
        if len(data) != length:
            raise _damaged(folder, name, f"has {len(data):,} bytes, package.json says {length:,}")
        found.append(
            Weights(
                symbol=f"{prefix}_{symbol}",
                macro=f"{prefix.upper()}_{macro}_BYTES",
                file=f"{prefix}_{name}",
                section=f".rodata.{section}",
                descriptor=f"{prefix}_{descriptor}",
                data=data,
            )
        )
    return tuple(found)


def _vector(folder: Path, package: Package, cases: Sequence[Case]) -> Vector:
    """A case that needs nothing but a fresh context: one call of forward, or the longest short prompt after a reset."""
    tokens = package.model.kind == "tokens"
    inputs = package.batch * package.model.inputs
    outputs = package.model.outputs * (1 if tokens else package.batch)

    def is_one(before: Case | None, case: Case) -> bool:
        answered = len(case.answers) == 1 and case.answers[0].status == 0
        if not answered or len(case.answers[0].payload) != 4 * outputs:
            return False
        if not tokens:
            return case.op == "F" and len(case.payload) == 4 * inputs
        fresh = before is not None and before.op == ("E" if package.model.source else "R")
        return case.op == "P" and fresh and 0 < len(case.payload) <= 4 * min(_MOST_TOKENS, package.context)

    pairs = zip([None, *cases], cases, strict=False)
    fitting = [(before, case) for before, case in pairs if is_one(before, case)]
    if not fitting:
        raise _damaged(folder, _VECTORS, "has no case of one call")
    before, chosen = max(fitting, key=lambda pair: len(pair[1].payload))  # of equals the first
    source = before.payload if before is not None and package.model.source else b""
    return Vector(chosen.payload, chosen.answers[0].payload, source)


class _Manifest(msgspec.Struct, frozen=True):
    licence: str = ""


def _licence(folder: Path, package: Package, data: bytes) -> str:
    """What the checkpoint says of its licence stands in the manifest, the last section of `model.bin`."""
    section = next((one for one in package.sections if one.part == "manifest"), None)
    if section is None:
        return ""
    raw = data[section.offset : section.offset + section.bytes]
    try:
        return comment_text(msgspec.json.decode(raw, type=_Manifest).licence, 200)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _damaged(folder, "model.bin", "its manifest is damaged") from None
