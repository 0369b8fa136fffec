"""The statuses of `colibri.h` for other languages: from the header that the export carries, so that they agree."""

from __future__ import annotations

import re
from dataclasses import dataclass

from colibri.errors import BadInput
from colibri.export.model import Model

_ENTRY = re.compile(r'COLIBRI_X\(COLIBRI_(\w+), (-?\d+), +"([A-Za-z0-9 ,;.:-]+)"\)')


@dataclass(frozen=True)
class Status:
    """One status.

    Attributes:
        name: ``BAD_TOKEN``.
        camel: ``BadToken``.
        text: letters, digits and plain punctuation: safe in any language.
    """

    name: str
    value: int
    text: str

    @property
    def camel(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


def statuses(model: Model) -> list[Status]:
    """All but OK, in the order of the header.

    Raises:
        BadInput: the header has none.
    """
    text = model.headers["colibri.h"].decode(errors="replace")
    found = [Status(name, int(value), words) for name, value, words in _ENTRY.findall(text)]
    if not found or found[0].name != "OK":
        raise BadInput("has no list of statuses", where="colibri.h", hint="generate the package again")
    return found[1:]
