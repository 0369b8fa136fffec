"""A recipe in a word: what is to be done to a model, as one argument."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TypeVar

from colibri.boards.words import nearest
from colibri.calibrate.data import OWN, Calibration, Rounding
from colibri.errors import UsageError, shown
from colibri.graph.graph import StateType, TensorClass
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.passes.merge import Merge
from colibri.passes.rules import Rule, ordered
from colibri.recipe_file import read_recipe

_Word = TypeVar("_Word", bound=Enum)
_From = TypeVar("_From")
_To = TypeVar("_To")

_HINT = "for example w4a8:experts=w8a8:kv=f16:context=64:drop=0.1,2.5, or the recipe.json of a package"
_KEYS = ("kv", "context", "source", "prefill", "batch", "drop", "merge", "calibrate", "rounding", "optimise")
_MOST = {"context": 1 << 20, "source": 1 << 20, "prefill": 1024, "batch": 1024}


def parse_recipe(text: str) -> Options:
    """What ``SCHEME[:key=value]…`` or a ``.json`` file asks for.

    Keys are selectors of `passes.rules`, with a scheme; ``kv``, ``context``, ``source``, ``prefill``, ``batch``;
    ``drop`` with experts as ``LAYER.ID``, parted by commas; ``merge`` with ``LAYER.GONE-INTO@SHARE``; ``calibrate``
    with a file or ``self``, and ``rounding``; ``optimise`` with ``speed`` or ``size``.

    Raises:
        UsageError: not of this form.
        BadInput: the file is no recipe of this Colibri.
    """
    if text.endswith(".json"):
        return read_recipe(Path(text))
    scheme, *parts = text.split(":")
    values: dict[str, str] = {}
    rules: list[Rule] = []
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and set(key.split(".")) & set(TensorClass):
            rules.append(_said(text, Rule.parse, part))
            continue
        if key not in _KEYS or not equals:
            hint = f"say its value, {key}=…" if key in _KEYS else nearest(key, (*_KEYS, *map(str, TensorClass)))
            raise _wrong(text, f"'{shown(part)}' is no key with a value; {hint}")
        if key in values:
            raise _wrong(text, f"{key} is there twice")
        values[key] = value
    return Options(
        scheme=_said(text, Scheme.parse, scheme),
        rules=_said(text, ordered, rules),
        kv=_word(text, values.get("kv", str(StateType.F32)), StateType),
        batch=_number(text, "batch", values),
        prefill=_number(text, "prefill", values),
        context=_number(text, "context", values),
        source=_number(text, "source", values),
        drop=_drops(text, values["drop"]) if "drop" in values else {},
        merges=_merges(text, values["merge"]) if "merge" in values else (),
        calibration=_calibration(text, values),
        optimise=_word(text, values["optimise"], Optimise) if "optimise" in values else None,
        word=text,
    )


def recipe_text(options: Options) -> str:
    """The short form: equal for equal options. It leaves out ``keep``, ``prefix`` and pins, which a recipe has not."""
    parts = [options.schemes]
    if options.kv is not StateType.F32:
        parts.append(f"kv={options.kv}")
    for key in _MOST:
        if (value := getattr(options, key)) is not None:
            parts.append(f"{key}={value}")
    if drops := [f"{layer}.{expert}" for layer in sorted(options.drop) for expert in sorted(options.drop[layer])]:
        parts.append(f"drop={','.join(drops)}")
    if merges := [f"{one.layer}.{one.gone}-{one.into}@{_share(one.share)}" for one in options.merges]:
        parts.append(f"merge={','.join(merges)}")
    if options.calibration is not None:
        parts.append(f"calibrate={options.calibration.file or OWN}")
        if options.calibration.rounding is not Rounding.GPTQ:
            parts.append(f"rounding={options.calibration.rounding}")
    if options.optimise is Optimise.SIZE:
        parts.append(f"optimise={options.optimise}")
    return ":".join(parts)


def _share(share: float) -> str:
    """As `_merges` takes it, whatever a file had.

    >>> _share(0.033), _share(1.0), _share(1 / 3), _share(1e-5)
    ('0.033', '1.0', '0.333333333', '0.00001')
    """
    text = f"{share:.9f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _calibration(text: str, values: dict[str, str]) -> Calibration | None:
    if "calibrate" not in values:
        if "rounding" in values:
            raise _wrong(text, "rounding is for calibration data; say calibrate= too")
        return None
    rounding = _word(text, values.get("rounding", str(Rounding.GPTQ)), Rounding)
    if not values["calibrate"]:
        raise _wrong(text, "calibrate= names no file")
    return Calibration(None if values["calibrate"] == OWN else Path(values["calibrate"]), rounding=rounding)


def _said(text: str, read: Callable[[_From], _To], part: _From) -> _To:
    try:
        return read(part)
    except UsageError as error:
        raise UsageError(f"{error.where}: {error.what}", where=f"recipe '{shown(text)}'", hint=error.hint) from None


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


def _merges(text: str, value: str) -> tuple[Merge, ...]:
    merges = []
    for one in value.split(","):
        match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})-([0-9]{1,9})@([01]\.[0-9]{1,9})", one, re.ASCII)
        if match is None:
            raise _wrong(text, f"'{shown(one)}' is not LAYER.GONE-INTO@SHARE, such as 2.5-1@0.25")
        merges.append(Merge(int(match[1]), int(match[3]), int(match[2]), float(match[4])))
    return tuple(merges)


def _wrong(text: str, what: str) -> UsageError:
    return UsageError(what, where=f"recipe '{shown(text)}'", hint=_HINT)
