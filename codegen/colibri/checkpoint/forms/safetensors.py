"""The form of transformers: a folder with config.json and safetensors, one file or shards with their index.

With an index the model is exactly the files it names; without one it is ``model.safetensors``, or the only safetensors
file whatever its name. Any other safetensors file beside them is refused, since nobody can say which of the two is the
model; except ``consolidated*.safetensors``, the vendor's own copy of the same weights, which is set aside with a note.
"""

from __future__ import annotations

import re

from colibri.checkpoint.config import FILE_NAME as CONFIG_NAME
from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Folder
from colibri.checkpoint.forms.safetensors_header import read_header
from colibri.checkpoint.forms.shards import join, read_index
from colibri.checkpoint.source import Opened, Plain, Tensors
from colibri.errors import BadInput, shown

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
_SHARD_NAME = re.compile(r"-\d+-of-\d+\.safetensors$")


def open_safetensors(folder: Folder, name: str) -> Opened:
    """Open a folder in which some file ends in `SUFFIX`, or which has an index.

    Raises:
        BadInput: no config.json, something damaged, or files beside the model of which nobody can say what they are.
    """
    config = read_config(folder)
    present = folder.names()
    stored = sorted(name for name in present if name.endswith(SUFFIX))
    index = INDEX if INDEX in present else None
    if index:
        shard_of = read_index(folder, index, SUFFIX)
        files = sorted(set(shard_of.values()))
    else:
        shard_of = {}
        files = [SINGLE if SINGLE in stored else _only(folder, stored)]
    set_aside = _set_aside(folder, stored, files, index or files[0])
    metadata: dict[str, str] = {}
    shards = {}
    for shard in files:
        file = folder.file(shard)
        header = read_header(file)
        metadata |= header.metadata
        shards[shard] = {
            tensor: Plain(file, entry.dtype, entry.shape, header.begin + entry.begin)
            for tensor, entry in header.tensors.items()
        }
    return Opened(name, folder, config, Tensors(join(folder, index, shard_of, shards), metadata), set_aside)


def read_config(folder: Folder) -> Config:
    """Read config.json of a folder. BadInput: none, or a damaged one."""
    if not folder.has(CONFIG_NAME):
        raise BadInput(
            f"no {CONFIG_NAME}",
            where=folder.where,
            hint="params.json is the vendor's own form: give the folder in Hugging Face form"
            if folder.has("params.json")
            else "put that of the model beside its weights",
        )
    return Config.read(folder.file(CONFIG_NAME))


def _set_aside(folder: Folder, stored: list[str], used: list[str], by: str) -> dict[str, str]:
    extra = [name for name in stored if name not in used]
    stray = [name for name in extra if not name.startswith("consolidated")]
    if stray:
        raise BadInput(
            f"'{shown(stray[0])}' lies beside the model, yet {by} "
            + ("does not name it" if by == INDEX else "is a model of its own"),
            where=folder.where,
            hint="move whichever is not part of the model elsewhere",
        )
    return dict.fromkeys(extra, f"the vendor's own copy of the weights; {by} is read")


def _only(folder: Folder, stored: list[str]) -> str:
    where = folder.where
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
