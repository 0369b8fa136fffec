"""`recipe.json`: every decision about numbers, and what code is made for, as a file that rebuilds the same anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

import msgspec

from colibri.calibrate.data import FILE_NAME, Calibration, Rounding, sha256
from colibri.checkpoint.untrusted import decoded, parse_object, read_bounded
from colibri.errors import BadInput, UsageError, shown
from colibri.graph.graph import Graph, StateType
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.passes.fold import fold_text
from colibri.passes.merge import Merge
from colibri.passes.rules import Rule, Selector, ordered

SCHEMA = 3
NAME = "recipe.json"
ANY_HASH = "0" * 32  # in place of `recipe_hash` where only sizes matter

_FILE_BYTES = 1 << 24
_MOST_RULES = 10_000
_MOST_NUMBER = 1 << 20
_AGAIN = "generate the package again with the options that made it"
_HINT = "a recipe is the recipe.json of a package, see docs/recipes.md"


class _Head(msgspec.Struct, frozen=True):
    schema: int


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """With the same checkpoint it gives the same `model.bin` anywhere.

    Attributes:
        scheme: of the matrices that no rule takes.
        rules: selector to scheme.
        kv: type of key and value states.
        context: positions; 0 for samples.
        source: tokens of an encoder.
        dropped_experts: layer to the ids of its experts that are gone.
        folds: as `passes.fold` has them.
        calibration: SHA-256 of the file of data beside this one; empty without.
        rounding: for that data.
        merges: in this order, before those that go are dropped.
        optimise: what the code is made for; empty for speed.
        checkpoint: fingerprint of the checkpoint, see `Tensors.fingerprint`; empty where the recipe holds for any.
    """

    schema: int
    scheme: str
    rules: dict[str, str] = {}
    kv: str
    context: int
    source: int | msgspec.UnsetType = msgspec.UNSET
    dropped_experts: dict[str, list[int]]
    folds: dict[str, dict[str, list[int]]] = {}
    merges: tuple[Merge, ...] = ()
    calibration: str = ""
    rounding: str = ""
    optimise: str = ""
    checkpoint: str = ""


def recipe_bytes(graph: Graph, options: Options, fingerprint: str) -> bytes:
    """The file, with what was left to the checkpoint (context, source) as it is in the graph.

    Args:
        fingerprint: of the checkpoint.
    """
    recipe = Recipe(
        schema=SCHEMA,
        scheme=str(options.scheme),
        rules={str(rule.selector): str(rule.scheme) for rule in options.rules},
        kv=str(options.kv),
        context=graph.context,
        source=graph.source or msgspec.UNSET,
        dropped_experts={str(layer): sorted(ids) for layer, ids in sorted(graph.pruned.items()) if ids},
        folds=fold_text(graph.folds),
        merges=options.merges,
        calibration=sha256(graph.calibration) if graph.calibration else "",
        rounding=str(options.calibration.rounding) if options.calibration else "",
        optimise=str(Optimise.SIZE) if options.optimise is Optimise.SIZE else "",
        checkpoint=fingerprint,
    )
    return msgspec.json.format(msgspec.json.encode(recipe, order="sorted"), indent=1) + b"\n"


def recipe_hash(recipe: bytes) -> str:
    """Of the file, in hexadecimal."""
    return hashlib.sha256(recipe).hexdigest()[:32]


def read_recipe(path: Path) -> Options:
    """Read the file.

    Raises:
        BadInput: unreadable, no recipe, of another schema, or with a word that means nothing.
    """
    where = shown(str(path), 300)
    raw = read_bounded(path, _FILE_BYTES, pipe=True)
    table = parse_object(raw, where=where, hint=_HINT)  # which takes no key twice
    head = decoded(lambda: msgspec.convert(table, _Head), what="is no recipe", where=where, hint=_HINT)
    if head.schema != SCHEMA:
        raise BadInput(f"recipe schema {head.schema}, this Colibri reads {SCHEMA}", where=where, hint=_AGAIN)
    recipe = decoded(lambda: msgspec.convert(table, Recipe), what="is no recipe", where=where, hint=_HINT)
    try:
        return _options(recipe, path, where)
    except UsageError as error:
        said = f"{error.where}: {error.what}" if error.where else error.what
        raise BadInput(said, where=where, hint=error.hint) from None


def _options(recipe: Recipe, path: Path, where: str) -> Options:
    if recipe.kv not in list(StateType):
        raise BadInput(f"'{shown(recipe.kv, 40)}' is no type of states", where=where, hint=f"it is {_known(StateType)}")
    if recipe.optimise not in ("", *Optimise):
        raise BadInput(
            f"'{shown(recipe.optimise, 40)}' is nothing to optimise for", where=where, hint=f"it is {_known(Optimise)}"
        )
    if len(recipe.rules) > _MOST_RULES:
        raise BadInput(f"{len(recipe.rules):,} rules, at most {_MOST_RULES:,}", where=where)
    source = None if recipe.source is msgspec.UNSET else recipe.source
    for key, value in (("context", recipe.context), ("source", source or 0)):
        if not 0 <= value <= _MOST_NUMBER:
            raise BadInput(f"{key} {value} is not from 0 to {_MOST_NUMBER}", where=where)
    rules = [Rule(Selector.parse(selector), Scheme.parse(scheme)) for selector, scheme in recipe.rules.items()]
    return Options(
        scheme=Scheme.parse(recipe.scheme),
        rules=ordered(rules),
        kv=StateType(recipe.kv),
        context=recipe.context or None,
        source=source or None,
        drop=_numbers(recipe.dropped_experts, where),
        folds=recipe.folds,
        merges=recipe.merges,
        calibration=_calibration(recipe, path, where),
        optimise=Optimise(recipe.optimise) if recipe.optimise else None,
        file=where,
        checkpoint=_fingerprint(recipe, where),
    )


def _calibration(recipe: Recipe, path: Path, where: str) -> Calibration | None:
    if not recipe.calibration and not recipe.rounding:
        return None
    if not re.fullmatch("[0-9a-f]{64}", recipe.calibration):
        raise BadInput(f"calibration '{shown(recipe.calibration, 70)}' is no SHA-256", where=where)
    if recipe.rounding not in list(Rounding):
        what = f"'{shown(recipe.rounding, 40)}' is no way to round"
        raise BadInput(what, where=where, hint=f"it is {_known(Rounding)}")
    beside = path.parent / FILE_NAME
    return Calibration(beside, None, Rounding(recipe.rounding), recipe.calibration)


def _fingerprint(recipe: Recipe, where: str) -> str:
    if recipe.checkpoint and not re.fullmatch("[0-9a-f]{64}", recipe.checkpoint):
        raise BadInput(f"checkpoint '{shown(recipe.checkpoint, 70)}' is no SHA-256", where=where)
    return recipe.checkpoint


def _numbers(dropped: Mapping[str, list[int]], where: str) -> dict[int, set[int]]:
    found = {}
    for layer, ids in dropped.items():
        wrong = next((number for number in ids if not 0 <= number < _MOST_NUMBER), None)
        if not re.fullmatch("0|[1-9][0-9]{0,8}", layer) or wrong is not None:
            what = f"dropped_experts: '{shown(layer, 20) if wrong is None else wrong}' is no number of"
            raise BadInput(f"{what} {'a layer' if wrong is None else 'an expert'}", where=where)
        if len(set(ids)) < len(ids):
            twice = next(one for one, other in pairwise(sorted(ids)) if one == other)
            raise BadInput(f"dropped_experts: layer {layer} names expert {twice} twice", where=where)
        found[int(layer)] = set(ids)
    return found


def _known(kind: type[StrEnum]) -> str:
    return " or ".join(str(one) for one in kind)
