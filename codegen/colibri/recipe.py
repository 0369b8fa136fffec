"""A recipe in a word: what is to be done to a model, as one argument."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

import msgspec

from colibri.boards.words import nearest
from colibri.checkpoint.untrusted import decoded, read_bounded
from colibri.errors import BadInput, UsageError, shown
from colibri.generate import RECIPE_SCHEMA, Options, Recipe
from colibri.graph.graph import StateType
from colibri.passes.quantise import Scheme

_Word = TypeVar("_Word", bound=Enum)

_FILE_BYTES = 1 << 20
_HINT = "for example w4a8:kv=f16:context=64:drop=0.1,2.5, or the recipe.json of a package"
_KEYS = ("kv", "context", "source", "prefill", "batch", "drop")
_MOST = {"context": 1 << 20, "source": 1 << 20, "prefill": 1024, "batch": 1024}


def parse_recipe(text: str) -> Options:
    """What ``SCHEME[:key=value]…`` or a ``.json`` file asks for.

    Keys are ``kv``, ``context``, ``source``, ``prefill``, ``batch``, and ``drop`` with experts as ``LAYER.ID``, parted
    by commas.

    Raises:
        UsageError: not of this form.
        BadInput: the file is no recipe of this Colibri.
    """
    if text.endswith(".json"):
        return _read(Path(text))
    scheme, *parts = text.split(":")
    values: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in _KEYS or not equals:
            raise _wrong(text, f"'{shown(part)}' is no key with a value; {nearest(key, _KEYS)}")
        if key in values:
            raise _wrong(text, f"{key} is there twice")
        values[key] = value
    return Options(
        scheme=_word(text, scheme, Scheme),
        kv=_word(text, values.get("kv", str(StateType.F32)), StateType),
        batch=_number(text, "batch", values),
        prefill=_number(text, "prefill", values),
        context=_number(text, "context", values),
        source=_number(text, "source", values),
        drop=_drops(text, values["drop"]) if "drop" in values else {},
    )


def recipe_text(options: Options) -> str:
    """The short form: equal for equal options. It leaves out ``keep``, ``prefix`` and pins, which a recipe has not."""
    parts = [str(options.scheme)]
    if options.kv is not StateType.F32:
        parts.append(f"kv={options.kv}")
    for key in _MOST:
        if (value := getattr(options, key)) is not None:
            parts.append(f"{key}={value}")
    if drops := [f"{layer}.{expert}" for layer in sorted(options.drop) for expert in sorted(options.drop[layer])]:
        parts.append(f"drop={','.join(drops)}")
    return ":".join(parts)


def _read(path: Path) -> Options:
    where = shown(str(path), 300)
    raw = read_bounded(path, _FILE_BYTES)
    recipe = decoded(lambda: msgspec.json.decode(raw, type=Recipe), what="is no recipe", where=where, hint=_HINT)
    if recipe.schema != RECIPE_SCHEMA:
        raise BadInput(f"recipe schema {recipe.schema}, this Colibri reads {RECIPE_SCHEMA}", where=where)
    drops = ",".join(f"{layer}.{expert}" for layer, ids in recipe.dropped_experts.items() for expert in ids)
    parts = [recipe.scheme, f"kv={recipe.kv}", *([f"context={recipe.context}"] if recipe.context else [])]
    parts += [f"source={recipe.source}"] if recipe.source else []
    try:
        options = parse_recipe(":".join([*parts, *([f"drop={drops}"] if drops else [])]))
    except UsageError as error:
        raise BadInput(error.what, where=where) from None
    return replace(options, folds=recipe.folds or {})


def _word(text: str, word: str, kind: type[_Word]) -> _Word:
    known = [str(member.value) for member in kind]
    if word not in known:
        raise _wrong(text, f"unknown word '{shown(word)}'; {nearest(word, known)}")
    return kind(word)


def _number(text: str, key: str, values: dict[str, str]) -> int | None:
    if key not in values:
        return None
    value = values[key]
    if not re.fullmatch("[1-9][0-9]{0,8}", value) or int(value) > _MOST[key]:
        raise _wrong(text, f"{key}={shown(value)} is no number from 1 to {_MOST[key]}")
    return int(value)


def _drops(text: str, value: str) -> dict[int, set[int]]:
    drops: dict[int, set[int]] = {}
    for pair in value.split(","):
        match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", pair)
        if match is None:
            raise _wrong(text, f"'{shown(pair)}' is not LAYER.ID")
        drops.setdefault(int(match[1]), set()).add(int(match[2]))
    return drops


def _wrong(text: str, what: str) -> UsageError:
    return UsageError(what, where=f"recipe '{shown(text)}'", hint=_HINT)
