"""Which files of a folder hold the weights. Names in the index are untrusted: no path may leave the folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from colibri.checkpoint.config import FILE_NAME as CONFIG_NAME
from colibri.checkpoint.untrusted import is_regular_file, parse_object, read_bounded
from colibri.errors import BadInput, shown

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_MAX_INDEX_BYTES = 64 << 20
_SUFFIX = ".safetensors"
_SHARD_NAME = re.compile(r"-\d+-of-\d+\.safetensors$")
_PLAIN_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_DOWNLOAD = "`hf download OWNER/NAME --local-dir FOLDER` fetches a checkpoint"
_INDEX_WHERE = "where the checkpoint came from, the index and its shards are one set"


@dataclass(frozen=True)
class WeightFiles:
    """Attributes:
    folder: the checkpoint.
    files: paths of the safetensors files that make up the model, by name relative to the folder.
    weight_map: file name (a key of `files`) that the index gives each tensor; None without an index.
    ignored: names of safetensors files that are set aside, each with the reason.
    """

    folder: Path
    files: dict[str, Path]
    weight_map: dict[str, str] | None
    ignored: dict[str, str]


def find_weights(path: Path) -> WeightFiles:
    """Find the weights of a checkpoint folder, or of the folder of a .safetensors file that is its only one.

    With an index the model is exactly the files it names; without one it is ``model.safetensors``, or the only
    safetensors file whatever its name. Any other safetensors file beside them is refused, since nobody can say which
    of the two is the model; except ``consolidated*.safetensors``, the vendor's own copy of the same weights, which is
    set aside with a note.

    Raises:
        BadInput: no such folder, no weights, only pickles, an index that is damaged, names a missing file or leaves the
            folder, shards without an index, or stray safetensors files.
    """
    folder = _folder(path)
    present = _names(folder)
    stored = sorted(name for name in present if name.endswith(_SUFFIX))
    if INDEX in present:
        weight_map = _read_index(folder / INDEX)
        files = {name: stays_inside(folder, name) for name in sorted(set(weight_map.values()))}
        missing = [name for name, file in files.items() if not is_regular_file(file)]
        if missing:
            raise BadInput(
                f"names {len(missing)} file(s) that are absent, first '{shown(missing[0])}'",
                where=shown(str(folder / INDEX)),
                hint="download the missing file(s)",
            )
        return WeightFiles(folder, files, weight_map, _set_aside(folder, stored, set(files), INDEX))
    if not stored:
        raise _no_weights(folder, present)
    name = SINGLE if SINGLE in stored else _only(folder, stored)
    return WeightFiles(folder, {name: stays_inside(folder, name)}, None, _set_aside(folder, stored, {name}, name))


def _folder(path: Path) -> Path:
    where = shown(str(path))
    try:
        if path.is_dir():
            return path
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        raise BadInput("no such checkpoint folder", where=where, hint=_DOWNLOAD)
    if path.suffix != _SUFFIX:
        raise BadInput("is not a folder", where=where, hint=f"give the folder that holds {CONFIG_NAME} and {SINGLE}")
    others = sorted(name for name in _names(path.parent) if name.endswith(_SUFFIX) and name != path.name)
    if others or is_regular_file(path.parent / INDEX):
        raise BadInput("is one of several weight files", where=where, hint="give its folder instead")
    return path.parent


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", where=shown(str(folder))) from None


def _read_index(file: Path) -> dict[str, str]:
    where = shown(str(file))
    weight_map = parse_object(read_bounded(file, _MAX_INDEX_BYTES), where=where).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadInput("has no weight_map", where=where, hint=_INDEX_WHERE)
    for tensor, name in weight_map.items():
        if not isinstance(name, str):
            raise BadInput(f"weight_map gives '{shown(tensor)}' something that is not a file name", where=where)
        if not _stays_inside(name):
            raise BadInput(
                f"weight_map puts '{shown(tensor)}' in '{shown(name)}', a path that leaves the checkpoint folder",
                where=where,
                hint="a shard must lie in the folder of its index",
            )
        if not name.endswith(_SUFFIX):
            raise BadInput(f"weight_map names '{shown(name)}', which is not a {_SUFFIX} file", where=where)
    return {tensor: str(PurePosixPath(name)) for tensor, name in weight_map.items()}


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not (path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name)


def stays_inside(folder: Path, name: str) -> Path:
    """Return the path of a file of the checkpoint, once its links are known to stay in the folder.

    Raises:
        BadInput: it is a link to somewhere else (the Hugging Face cache's own layout excepted).
    """
    file = folder / name
    try:
        real, home = file.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links
        raise BadInput("cannot be resolved", where=shown(str(file))) from None
    if not (real.is_relative_to(home) or _is_hub_blob(real, home)):
        raise BadInput(
            "is a link that leaves the checkpoint folder", where=shown(str(file)), hint="copy the file in its place"
        )
    return file


def _is_hub_blob(real: Path, home: Path) -> bool:
    """The Hugging Face cache keeps ``snapshots/REVISION/*`` as links into ``blobs/`` of the same model."""
    return home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"


def _set_aside(folder: Path, stored: list[str], used: set[str], by: str) -> dict[str, str]:
    extra = [name for name in stored if name not in used]
    stray = [name for name in extra if not name.startswith("consolidated")]
    if stray:
        raise BadInput(
            f"'{shown(stray[0])}' lies beside the model, yet {by} "
            + ("does not name it" if by == INDEX else "is a model of its own"),
            where=shown(str(folder)),
            hint="move whichever is not part of the model elsewhere",
        )
    return dict.fromkeys(extra, f"the vendor's own copy of the weights; {by} is read")


def _only(folder: Path, stored: list[str]) -> str:
    where = shown(str(folder))
    shards = [name for name in stored if _SHARD_NAME.search(name)]
    if shards:
        what = f"'{shown(shards[0])}' is a shard, but {INDEX} is missing"
        raise BadInput(what, where=where, hint="download the index")
    if len(stored) > 1:
        raise BadInput(
            f"several weight files ('{shown(stored[0])}', '{shown(stored[1])}'…) and no {INDEX}",
            where=where,
            hint=f"keep one, or name it {SINGLE}",
        )
    if stored[0].startswith("adapter"):
        raise BadInput(f"'{shown(stored[0])}' is an adapter, not a model", where=where, hint="merge it into its model")
    return stored[0]


def _no_weights(folder: Path, present: set[str]) -> BadInput:
    where = shown(str(folder))
    pickles = sorted(name for name in present if name.endswith(_PICKLE_SUFFIXES))
    if pickles:
        plain = _PLAIN_NAME.fullmatch(pickles[0])  # the hint is meant to be pasted into a shell
        pickle = pickles[0] if plain else "pytorch_model.bin"
        return BadInput(
            f"only a pickle ('{shown(pickles[0])}'); opening one can run any code in it, so it is not read",
            where=where,
            hint='convert it where you trust it: python -c "import torch, safetensors.torch as s; '
            f"s.save_file({{k: v.clone().contiguous() for k, v in torch.load('{pickle}', "
            f"weights_only=True).items()}}, '{SINGLE}')\"",
        )
    if any(name.endswith(".gguf") for name in present):
        return BadInput("holds GGUF, which is not read", where=where, hint=f"give the original with {SINGLE}")
    return BadInput(f"no weights: neither {SINGLE} nor {INDEX}", where=where, hint=_DOWNLOAD)
