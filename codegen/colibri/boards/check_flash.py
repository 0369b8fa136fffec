"""What must hold in what flash tools are told of a board: it goes to their command lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from colibri.boards.places import At
from colibri.boards.profile import Board, BoardKind, Flash
from colibri.errors import BadInput, shown

_FAMILY_IDS = 1 << 32


def flash_faults(board: Board, at: At) -> Iterator[BadInput]:
    """Of the table ``[flash]``."""
    flash = board.flash
    if board.kind is not BoardKind.BARE and flash != Flash():
        yield BadInput("only bare metal is flashed, a program is copied", where=at(("flash",)), hint="leave it out")
    for key in ("probe_rs", "pyocd", "esptool"):
        name = getattr(flash, key)
        if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]*)?", name):
            yield BadInput(
                f"'{shown(name)}' is no name of a chip", where=at(("flash", key)), hint="as the tool lists it"
            )
    for index, file in enumerate(flash.openocd):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*\.cfg", file) or ".." in file:
            what = f"'{shown(file)}' is no file of OpenOCD's"
            yield BadInput(what, where=at(("flash", "openocd", index)), hint='for example "target/stm32f4x.cfg"')
    if not 0 <= flash.uf2 < _FAMILY_IDS:
        yield BadInput(f"{flash.uf2:#x}", where=at(("flash", "uf2")), hint="a family id has 32 bits")
    if not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9 _-]{0,10})?", flash.drive):
        hint = "the label of a FAT drive has at most 11 characters: letters, digits, - and _"
        yield BadInput(f"'{shown(flash.drive)}'", where=at(("flash", "drive")), hint=hint)
