"""The language model inside a checkpoint that takes images or sound too: its config and its tensors, under plain names.

Source: what `save_pretrained` of transformers 5.24 writes for Llama 4, Mistral 3, SmolVLM and some twenty others, and
what its modules are called.
The config of the text is ``text_config``; its tensors lie below ``language_model.``, ``model.language_model.`` or
``model.text_model.``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from colibri.checkpoint.config import Config
from colibri.checkpoint.source import Opened, Stored, Tensors
from colibri.errors import BadInput, in_bytes, shown

_KEY = "text_config"
_INHERITED = ("quantization_config", "compression_config", "license")  # said once for the whole checkpoint
_TIED = "tie_word_embeddings"
_HEAD = "lm_head.weight"
_PREFIXES = {
    "language_model.model.": "model.",
    "language_model.": "",
    "model.language_model.": "model.",
    "model.text_model.": "model.",
}
_OTHERS = {
    "aligner", "audio_tower", "connector", "image_newline", "image_tower", "mm_projector", "multi_modal_projector",
    "patch_merger", "pre_mm_projector_norm", "video_tower", "vision_encoder", "vision_language_adapter", "vision_model",
    "vision_projection", "vision_tower", "visual", "visual_embeddings_table",
}  # fmt: skip


def text_part(opened: Opened) -> Opened:
    """Return the language model of a checkpoint of several parts; any other checkpoint as it is.

    Tensors of the parts for images and sound are set aside, with their number and bytes; a tensor of any other name
    stays, for the importer to refuse.

    Raises:
        BadInput: ``text_config`` is no table, or two tensors would have one name.
    """
    section = opened.config.optional_section(_KEY)
    if section is None:
        return opened
    renamed: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for name in opened.tensors.names():
        part = next((part for part in name.split(".")[:2] if part in _OTHERS), None)
        if part is not None and (name.startswith((f"{part}.", f"model.{part}.")) or name in (part, f"model.{part}")):
            others.setdefault(part, []).append(name)
            continue
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        plain = name if prefix is None else _PREFIXES[prefix] + name.removeprefix(prefix)
        if plain in renamed:
            what = f"tensors '{shown(renamed[plain])}' and '{shown(name)}' are the same part of the language model"
            raise BadInput(what, where=opened.folder.where)
        renamed[plain] = name
    stored: dict[str, Stored] = {plain: opened.tensors.stored(name) for plain, name in renamed.items()}
    set_aside = dict(opened.set_aside)
    for part, names in others.items():
        size = in_bytes(sum(opened.tensors.nbytes(name) for name in names))
        set_aside[f"{part}.*"] = f"not of the language model: {len(names)} tensor(s), {size}"
    config = Config(section.where, _table(opened.config, section, headed=_HEAD in stored), section.prefix)
    return replace(opened, config=config, tensors=Tensors(stored, opened.tensors.metadata), set_aside=set_aside)


def _table(whole: Config, section: Config, *, headed: bool) -> dict[str, Any]:
    """The nested table, with what the outer one says for it: a head is tied if either says so and none is stored."""
    table = dict(section.table)
    for key in _INHERITED:
        if whole.has(key):
            table.setdefault(key, whole.table[key])
    outer = whole.optional_boolean(_TIED)
    if outer is not None and outer != headed:
        table[_TIED] = outer
    return table
