"""One file a form in which checkpoints lie on disk; no other module knows a form.

To add a form: a file that makes an `Opened` of a file, and its lines in `_open_file` and `_open_folder`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from colibri.checkpoint.config import FILE_NAME as CONFIG_NAME
from colibri.checkpoint.files import Folder, LocalFolder
from colibri.checkpoint.forms.gguf import SUFFIX as GGUF
from colibri.checkpoint.forms.gguf import choose_gguf, is_gguf, open_gguf
from colibri.checkpoint.forms.llama2c import is_llama2c, open_llama2c
from colibri.checkpoint.forms.safetensors import INDEX, SINGLE, SUFFIX, open_safetensors, read_config
from colibri.checkpoint.forms.torch_file import INDEX as TORCH_INDEX
from colibri.checkpoint.forms.torch_file import SUFFIXES as TORCH_SUFFIXES
from colibri.checkpoint.forms.torch_file import open_torch
from colibri.checkpoint.remote import RemoteFolder, last_name, public, url_of
from colibri.checkpoint.source import Opened
from colibri.checkpoint.untrusted import is_folder, is_regular_file
from colibri.errors import BadInput, shown

_PLAIN_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_DOWNLOAD = "`hf download OWNER/NAME --local-dir FOLDER` fetches a checkpoint"


def open_form(path: Path) -> Opened:
    """Recognise the form of a checkpoint and open it: config and the list of tensors, none of them read.

    Args:
        path: a folder, or the file that is the model; here or behind a URL.

    Raises:
        ToolMissing: what a URL needs is not installed.
        BadInput: no such folder, no weights in it, only pickles, or whatever the form refuses.
    """
    url = url_of(path)
    if url is not None:
        return _open_url(url)
    if is_folder(path):
        return _open_folder(LocalFolder(path), path.resolve().name)
    if not is_regular_file(path):
        what = "is neither a folder nor a file" if os.path.lexists(path) else "no such checkpoint folder"
        raise BadInput(what, where=shown(str(path)), hint=_DOWNLOAD)
    folder = LocalFolder(path.parent, named=path.name)
    return _open_file(folder, path.name, path.parent.resolve().name)


def _open_url(url: str) -> Opened:
    """Open what a URL names, by the end of its path; a chained URL has the archive's own behind ``::``."""
    place, chain, rest = url.partition("::")
    if "?" in place:
        raise BadInput("has a query, which stands for one file", where=public(url), hint="download the checkpoint")
    for archive in rest.split("::"):
        scheme, _, path = archive.partition("://")
        if scheme in ("file", "local") and not is_regular_file(Path(path)):  # of a device all would be read
            raise BadInput("is not a file", where=public(archive))
    place = place if place.endswith("://") else place.rstrip("/")
    parent, _, last = place.rpartition("/")
    known = (INDEX, SINGLE)
    if last.endswith((SUFFIX, GGUF, TORCH_INDEX, *TORCH_SUFFIXES)):
        above = parent + chain + rest
        return _open_file(RemoteFolder(above, known), last, last_name(above))
    return _open_folder(RemoteFolder(url, known), last_name(url))


def _open_file(folder: Folder, name: str, parent: str) -> Opened:
    """Open a file that is the model; its first bytes say what it is."""
    if name.endswith(SUFFIX):
        present = folder.names()
        if INDEX in present or any(other.endswith(SUFFIX) and other != name for other in present):
            raise BadInput(
                "is one of several weight files", where=folder.file(name).where, hint="give its folder instead"
            )
        return open_safetensors(folder, parent)
    file = folder.file(name)
    if name.endswith(GGUF) or is_gguf(file):
        return open_gguf(folder, name)
    if is_llama2c(file):
        return open_llama2c(folder, name)
    if name.endswith((TORCH_INDEX, *TORCH_SUFFIXES)):
        return open_torch(folder, name, parent, read_config(folder))
    hint = f"give the folder that holds {CONFIG_NAME} and {SINGLE}"
    raise BadInput("is no file of weights in a form that is read", where=file.where, hint=hint)


def _open_folder(folder: Folder, name: str) -> Opened:
    present = folder.names()
    if INDEX in present or any(file.endswith(SUFFIX) for file in present):
        return open_safetensors(folder, name)
    if any(file.endswith(GGUF) for file in present):
        return open_gguf(folder, choose_gguf(folder, present))
    plain = [file for file in sorted(present) if file.endswith(".bin") and is_llama2c(folder.file(file))]
    if len(plain) == 1:
        return open_llama2c(folder, plain[0])
    raise _no_weights(folder, present)


def _no_weights(folder: Folder, present: set[str]) -> BadInput:
    where = folder.where
    pickles = sorted(name for name in present if name.endswith(_PICKLE_SUFFIXES))
    if pickles:
        plain = _PLAIN_NAME.fullmatch(pickles[0])  # the hint is meant to be pasted into a shell
        pickle = pickles[0] if plain else "pytorch_model.bin"
        return BadInput(
            f"only a pickle ('{shown(pickles[0])}'), in which Python would run any code, so a folder of it is not read",
            where=where,
            hint="give the file itself, of which nothing is run; or "
            'convert it where you trust it: python -c "import torch, safetensors.torch as s; '
            f"s.save_file({{k: v.clone().contiguous() for k, v in torch.load('{pickle}', "
            f"weights_only=True).items()}}, '{SINGLE}')\"",
        )
    return BadInput(f"no weights: neither {SINGLE} nor {INDEX}", where=where, hint=_DOWNLOAD)
