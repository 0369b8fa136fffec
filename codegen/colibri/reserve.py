"""Give the stack what its bound says, in place of the number in the board file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from colibri.boards.profile import BoardKind
from colibri.emit.linker import linker_scripts
from colibri.errors import BadInput
from colibri.footprint.stack import StackUse, stack_use
from colibri.package import load_package
from colibri.toolchain.buildfiles import OVERSIZE, PRODUCT


def fit_stack(folder: Path) -> StackUse | None:
    """Write the reserve that a built product needs into the package's linker scripts and `package.json`.

    The images are linked anew by the next build. The same package gives the same number, so equal builds stay equal.

    Returns:
        the bound and what it consists of; None under Linux, where there is no reserve, and when there is no bound: the
        reserve then stays what the board file says, and the report says why.

    Raises:
        BadInput: not built yet.
    """
    package = load_package(folder)
    if package.board.kind is not BoardKind.BARE:
        return None
    image = next((folder / name for name in (PRODUCT, OVERSIZE) if (folder / name).is_file()), None)
    if image is None:
        raise BadInput("not built yet", where=str(folder), hint="run `ninja` in it, or `colibri build`")
    use = stack_use(folder, package, image)
    if use.needed is None:
        return None
    if use.needed != package.board.stack:
        package = msgspec.structs.replace(package, board=msgspec.structs.replace(package.board, stack=use.needed))
        for name, text in linker_scripts(package).items():
            _replace(folder / name, text.encode())
        package.save(folder)
    return use


def _replace(path: Path, raw: bytes) -> None:
    """Beside and renamed; untouched when it is the same, so that nothing is linked in vain."""
    if path.read_bytes() != raw:
        beside = path.with_suffix(".new")
        beside.write_bytes(raw)
        beside.replace(path)
