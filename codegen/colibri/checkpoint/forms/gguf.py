"""GGUF: one file, or several that belong together, with the config and the tokenizer inside.

Source: `docs/gguf.md` of ggml. Its tensors get the names that `families/` knows, by the tables of
`gguf_architectures.py`; every tensor of the files is in one of them, or the run stops with its name.
"""

from __future__ import annotations

import re

from colibri.checkpoint.config import Config
from colibri.checkpoint.files import Folder
from colibri.checkpoint.forms.gguf_config import ROPE_TENSORS, Keys, read_architecture, read_config
from colibri.checkpoint.forms.gguf_header import Header, is_gguf, read_header
from colibri.checkpoint.forms.gguf_names import name_tensors
from colibri.checkpoint.forms.gguf_tensors import Blocks
from colibri.checkpoint.forms.gguf_tokenizer import find_tokenizer
from colibri.checkpoint.source import MXFP4, Opened, Tensors
from colibri.errors import BadInput, shown

__all__ = ["SUFFIX", "choose_gguf", "is_gguf", "open_gguf"]

SUFFIX = ".gguf"
_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_MOST_PARTS = 1000
_FREQUENCIES = "attn_rot_embd.weight"


def choose_gguf(folder: Folder, present: set[str]) -> str:
    """Return the only model of a folder, by the name of its file or of its first part.

    Raises:
        BadInput: there are several.
    """
    names = sorted(name for name in present if name.endswith(SUFFIX))
    models = {match["stem"] if (match := _PART.fullmatch(name)) else name for name in names}
    if len(models) > 1:
        first, second = sorted(models)[:2]
        what = f"holds {len(models)} models, '{shown(first)}', '{shown(second)}'" + ("…" if len(models) > 2 else "")
        raise BadInput(what, where=folder.where, hint="give the file of one of them")
    return names[0]


def open_gguf(folder: Folder, name: str) -> Opened:
    """Open a model by the name of its file, or of any of its parts.

    Raises:
        BadInput: a damaged header, a part that is missing, an architecture, a key, a tensor or a number format that is
            not understood.
    """
    headers = [read_header(folder.file(part)) for part in _parts(folder, name)]
    _check_parts(headers)
    stored: dict[str, Blocks] = {}
    for header in headers:
        for tensor, info in header.tensors.items():
            if tensor in stored:
                raise BadInput(f"tensor '{shown(tensor)}' is in another part too", where=header.file.where)
            stored[tensor] = Blocks(header.file, info.form, info.shape, info.begin)
    keys = Keys(headers[0])
    architecture = read_architecture(keys, stored)
    table = read_config(keys, architecture, stored)
    set_aside = {tensor: "the frequencies follow from rope_theta" for tensor in stored if tensor.endswith(_FREQUENCIES)}
    for tensor in (*ROPE_TENSORS, *set_aside):
        stored.pop(tensor, None)
    tensors = name_tensors(keys, architecture, stored, table)
    kept = MXFP4 if any(rule.blocks for rule in architecture.layer) else ""
    tokenizer, refused = find_tokenizer(headers[0])
    licence, bases = keys.text("general.license"), "general.base_model.0"
    origin = keys.text("general.source.repo_url") or keys.text("general.source.url") or keys.text(f"{bases}.repo_url")
    said = {"license": licence, "origin": origin}
    return Opened(
        name=_PART.sub(r"\g<stem>.gguf", name).removesuffix(SUFFIX),
        folder=folder,
        config=Config(headers[0].file.where, table),
        tensors=Tensors(tensors, {key: text for key, text in said.items() if text}),
        set_aside=set_aside,
        tokenizer=tokenizer,
        warnings=(*_rounded(headers, kept), *refused),
    )


def _rounded(headers: list[Header], kept: str) -> list[str]:
    """One line on the formats that hold less than the weights once were, but for the one that schemes can keep."""
    counts: dict[str, int] = {}
    for info in (
        info for header in headers for info in header.tensors.values() if info.form.bits and info.form.name != kept
    ):
        counts[info.form.name] = counts.get(info.form.name, 0) + 1
    if not counts:
        return []
    listed = ", ".join(f"{name} ({count} tensor{'s' * (count > 1)})" for name, count in sorted(counts.items()))
    return [
        f"the file holds rounded weights, {listed}: a scheme rounds them again, and quality is measured against them"
    ]


def _parts(folder: Folder, name: str) -> list[str]:
    match = _PART.fullmatch(name)
    if match is None:
        return [name]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count <= _MOST_PARTS:
        raise BadInput(f"'{shown(name)}' is no part of {count}", where=folder.where)
    names = [f"{match['stem']}-{number:05}-of-{count:05}{SUFFIX}" for number in range(1, count + 1)]
    missing = [part for part in names if not folder.has(part)]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        what = f"'{shown(missing[0])}'{more} of the {count} parts of this model is not there"
        raise BadInput(what, where=folder.where, hint="download all parts into one folder")
    return names


def _check_parts(headers: list[Header]) -> None:
    """Each file says which part it is, of how many, and how many tensors all have."""
    tensors = sum(len(header.tensors) for header in headers)
    for number, header in enumerate(headers):
        expected = {"split.no": number, "split.count": len(headers), "split.tensors.count": tensors}
        for key, value in expected.items():
            found = header.values.get(key)
            if found is None and len(headers) == 1:
                continue
            if found != value and not (key == "split.count" and len(headers) == 1 and found == 0):
                hint = "give a part by its own name, NAME-00001-of-0000N.gguf, with all others beside it"
                raise BadInput(f"{key} is {shown(str(found))}, expected {value}", where=header.file.where, hint=hint)
