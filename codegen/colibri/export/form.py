"""What a form of export is: a name, and a function from a package to files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from colibri.boards.profile import BoardKind
from colibri.errors import UsageError, shown
from colibri.export.model import Model

_LONGEST_PROMPT = 200

Files = dict[str, bytes]  # path below the export's folder, with slashes, to content


@dataclass(frozen=True)
class Label:
    """What the user calls the export; not in the package, since it changes no bit of the model.

    Attributes:
        version: MAJOR.MINOR.PATCH.
        vendor: letters, digits, ``_`` and ``-``.
        url: of the project, or empty.
        prompts: beginnings that a page offers, and an example takes; printable.
    """

    version: str = "0.1.0"
    vendor: str = "Colibri"
    url: str = ""
    prompts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, text, pattern, example in (
            ("--version", self.version, r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", "1.2.3"),
            ("--vendor", self.vendor, r"[A-Za-z][A-Za-z0-9_-]{0,39}", "Example-Motors"),
            ("--url", self.url, r"(https?://[A-Za-z0-9._~/#?=:@+-]{1,200})?", "https://example.com/firmware"),
        ):
            if not re.fullmatch(pattern, text, re.ASCII):
                raise UsageError(f"'{shown(text)}' cannot stand there", where=option, hint=f"for example {example}")
        for prompt in self.prompts:
            if not prompt.isprintable() or not 0 < len(prompt) <= _LONGEST_PROMPT:
                hint = f"printable text of at most {_LONGEST_PROMPT} characters"
                raise UsageError(f"'{shown(prompt)}' cannot stand there", where="--prompt", hint=hint)


@dataclass(frozen=True)
class Form:
    """One form.

    Attributes:
        name: as the user types it.
        title: what it is, for `colibri export --help`.
        kinds: of boards whose packages it is for.
        files: writes it.
        encoders: whether it has calls for models with an encoder.
    """

    name: str
    title: str
    kinds: tuple[BoardKind, ...]
    files: Callable[[Model, Label], Files]
    encoders: bool = True
