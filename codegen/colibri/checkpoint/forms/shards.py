"""Weights in several files, with an index in JSON that says which file holds which tensor. Names are untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from colibri.checkpoint.files import Folder, read_whole, stays_inside
from colibri.checkpoint.source import Stored
from colibri.checkpoint.untrusted import parse_object
from colibri.errors import BadInput, shown

_MAX_BYTES = 64 << 20
_ONE_SET = "where the checkpoint came from, the index and its shards are one set"


def read_index(folder: Folder, index: str, suffix: str) -> dict[str, str]:
    """Return the shard of each tensor, as an index gives it.

    Args:
        folder: of the index and its shards.
        index: name of the index.
        suffix: that a shard's name ends in.

    Raises:
        BadInput: the index is damaged, names a missing file, one of another kind, or one outside the folder.
    """
    file = folder.file(index)
    where = file.where
    weight_map = parse_object(read_whole(file, _MAX_BYTES), where=where).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadInput("has no weight_map", where=where, hint=_ONE_SET)
    for tensor, name in weight_map.items():
        if not isinstance(name, str):
            raise BadInput(f"weight_map gives '{shown(tensor)}' something that is not a file name", where=where)
        if not stays_inside(name):
            raise BadInput(
                f"weight_map puts '{shown(tensor)}' in '{shown(name)}', a path that leaves the checkpoint folder",
                where=where,
                hint="a shard must lie in the folder of its index",
            )
        if not name.endswith(suffix):
            raise BadInput(f"weight_map names '{shown(name)}', which is not a {suffix} file", where=where)
    shards = {tensor: str(PurePosixPath(name)) for tensor, name in weight_map.items()}
    missing = [name for name in sorted(set(shards.values())) if not folder.has(name)]
    if missing:
        raise BadInput(
            f"names {len(missing)} file(s) that are absent, first '{shown(missing[0])}'",
            where=where,
            hint="download the missing file(s)",
        )
    return shards


def join(
    folder: Folder, index: str | None, shard_of: Mapping[str, str], shards: Mapping[str, Mapping[str, Stored]]
) -> dict[str, Stored]:
    """Return the tensors of all shards.

    Args:
        folder: of the shards.
        index: name of the index, where there is one.
        shard_of: what `read_index` returned.
        shards: the tensors of each shard, by its name.

    Raises:
        BadInput: a tensor is in two shards, in another shard than the index says, or in none; or is not in the index.
    """
    joined: dict[str, Stored] = {}
    found: dict[str, str] = {}
    for shard, tensors in shards.items():
        for name, stored in tensors.items():
            if name in joined:
                what = f"tensor '{shown(name)}' is in '{shown(found[name])}' and in '{shown(shard)}'"
                raise BadInput(what, where=folder.where)
            joined[name], found[name] = stored, shard
    if index is not None:
        _check_index(folder.file(index).where, shard_of, found)
    return joined


def _check_index(where: str, shard_of: Mapping[str, str], found: Mapping[str, str]) -> None:
    for name, shard in shard_of.items():
        if found.get(name) != shard:
            there = f"it is in '{shown(found[name])}'" if name in found else "no shard has it"
            what = f"puts tensor '{shown(name)}' in '{shown(shard)}', which has not got it"
            raise BadInput(what, where=where, hint=there)
    unlisted = [name for name in found if name not in shard_of]
    if unlisted:
        raise BadInput(
            f"does not list tensor '{shown(unlisted[0])}' of '{shown(found[unlisted[0]])}'"
            + (f" and {len(unlisted) - 1} more" if len(unlisted) > 1 else ""),
            where=where,
        )
