"""A profile that was saved with `colibri profile --json`, and whether it is of a given package."""

from __future__ import annotations

from pathlib import Path

import msgspec

from colibri.checkpoint.untrusted import decoded, read_bounded
from colibri.errors import BadInput, shown
from colibri.package import Package
from colibri.profile.model import SCHEMA, Profile

_PROFILE_BYTES = 256 << 20
_AGAIN = "make it again with `colibri profile PACKAGE --json`"


class _Version(msgspec.Struct, frozen=True):
    """What every version of the file has."""

    schema: int


def read_profile(path: Path) -> Profile:
    """Read a profile in JSON.

    Raises:
        BadInput: not readable, not a profile, of another schema, or without a position.
    """
    where, what = shown(str(path), 300), "not a profile"
    raw = read_bounded(path, _PROFILE_BYTES, pipe=True)
    version = decoded(lambda: msgspec.json.decode(raw, type=_Version), what=what, where=where, hint=_AGAIN)
    if version.schema != SCHEMA:
        raise BadInput(f"profile schema {version.schema}, this Colibri reads {SCHEMA}", where=where, hint=_AGAIN)
    profile = decoded(lambda: msgspec.json.decode(raw, type=Profile), what=what, where=where, hint=_AGAIN)
    if not profile.positions:
        raise BadInput("a profile without a position", where=where, hint=_AGAIN)
    return profile


def require_profile_of(profile: Profile, *, name: str, board: str, package: Package | None, where: str) -> None:
    """Do nothing when the profile is of this image.

    Args:
        name: the package's, as the report has it.
        package: when it is there, its layout and recipe are compared too.

    Raises:
        BadInput: it is of another one.
    """
    if (profile.package, profile.board) != (name, board):
        theirs, ours = (f"{one} on {other}" for one, other in ((profile.package, profile.board), (name, board or "?")))
        raise BadInput(f"a profile of {shown(theirs, 200)}, not of {shown(ours, 200)}", where=where)
    hashes = (profile.abi_hash, profile.recipe_hash)
    if package is not None and hashes != (package.abi_hash, package.recipe_hash):
        raise BadInput("a profile of an earlier build of this package", where=where, hint=_AGAIN)
