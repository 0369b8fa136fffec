"""A profile that was saved with `colibri profile --json`, and whether it is of a given package."""

from __future__ import annotations

from pathlib import Path

from colibri.checkpoint.untrusted import read_bounded
from colibri.errors import BadInput, shown
from colibri.package import Package
from colibri.profile.model import SCHEMA, Profile
from colibri.saved_json import decode_saved

_PROFILE_BYTES = 256 << 20
_AGAIN = "make it again with `colibri profile PACKAGE --json`"


def read_profile(path: Path) -> Profile:
    """Read a profile in JSON.

    Raises:
        BadInput: not readable, not a profile, of another schema, or without a position.
    """
    where = shown(str(path), 300)
    raw = read_bounded(path, _PROFILE_BYTES, pipe=True)
    # What runs outside the layers is in layer -1.
    profile = decode_saved(raw, Profile, SCHEMA, noun="profile", where=where, hint=_AGAIN, least=-1)
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
