"""A recipe as one argument."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_models import ORACLE, make_package, sensor, write_mixtral

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.emit.writer import write_package
from colibri.errors import BadInput, ColibriError, UsageError
from colibri.generate import build_graph, prepare
from colibri.graph.graph import StateType, TensorClass
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.passes.rules import Rule, Selector
from colibri.recipe import parse_recipe, recipe_text
from colibri.recipe_file import recipe_bytes


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("w8a8", Options()),
        ("w4a8:kv=f16", Options(Scheme.W4A8, StateType.F16)),
        (
            "f32:context=64:prefill=8:drop=0.1,0.3,12.5",
            Options(Scheme.F32, prefill=8, context=64, drop={0: {1, 3}, 12: {5}}),
        ),
        ("w8a16:batch=4", Options(Scheme.W8A16, batch=4)),
        ("w8a8:optimise=size", Options(optimise=Optimise.SIZE)),
        ("w4a8:head=w8a16", Options(Scheme.W4A8, rules=(Rule(Selector(TensorClass.HEAD), Scheme.W8A16),))),
    ],
)
def test_short_forms(text: str, options: Options) -> None:
    assert parse_recipe(text) == options
    assert recipe_text(options) == text


def test_equal_recipes_have_one_text() -> None:
    assert recipe_text(parse_recipe("w8a8:drop=1.1,0.2,0.2:kv=f32:optimise=speed")) == "w8a8:drop=0.2,1.1"
    mixed = "w4a8:head=w8a16:0.experts.down=w8a8:embedding=w8a8:2.experts=w8a8:experts.up=w4a8:10.experts=w8a8"
    ordered = "embedding=w8a8:experts.up=w4a8:2.experts=w8a8:10.experts=w8a8:0.experts.down=w8a8:head=w8a16"
    assert recipe_text(parse_recipe(mixed)) == f"w4a8:{ordered}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("w8a9", "scheme 'w8a9': is none; for example"),
        ("", "coding '': is none; for example w4"),
        ("w4", "scheme 'w4': activations have 8 or 16 bits: w4a8 or w4a16; for example"),
        ("f32a8", "scheme 'f32a8': f32 has activations in floats"),
        ("w4a8:experts=w4", "scheme 'w4': activations have 8 or 16 bits"),
        ("w4a8:experts=w4a8:experts=w8a8", "two rules for experts: contradict each other: w4a8 and w8a8"),
        ("w4a8:1.2.experts=w8a8", "rule for '1.2.experts': is not [LAYER.]CLASS[.SLOT]; for example"),
        ("w4a8:expert=w8a8", "'expert=w8a8' is no key with a value; did you mean 'experts'?"),
        ("w8a8:", "'' is no key with a value; known: attention, batch"),
        ("w8a8:kvs=f16", "'kvs=f16' is no key with a value; did you mean 'kv'?"),
        ("w8a8:kv", "'kv' is no key with a value"),
        ("w8a8:kv=f8", "unknown word 'f8'; known: f16, f32"),
        ("w8a8:kv=f16:kv=f16", "kv is there twice"),
        ("w8a8:context=0", "context=0 is no number from 1 to 1048576"),
        ("w8a8:context=1e3", "context=1e3 is no number"),
        ("w8a8:prefill=1025", "prefill=1025 is no number from 1 to 1024"),
        ("w8a8:drop=1", "'1' is not LAYER.ID"),
        ("w8a8:drop=", "'' is not LAYER.ID"),
        ("w8a8:drop=0.-1", "'0.-1' is not LAYER.ID"),
    ],
)
def test_what_is_no_recipe(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_recipe(text)
    assert message in str(caught.value) and str(caught.value).startswith(f"recipe '{text}': ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("checkpoint", "word"),
    [
        ("mixtral-base", "w4a8:kv=f16:context=16:drop=0.1"),
        ("mixtral-base", "w4a8:experts.down=w8a8:1.experts=f32:router=w8a8:context=16:drop=0.1,1.3:merge=1.5-2@0.25"),
        ("switch-base", "w8a8:attention=w4a8:context=12:source=10"),
        ("phimoe-base", "w4a8:0.attention.v=f32:embedding=f16:experts=w3g64za8+o5:1.experts.down=w2a16:context=16"),
    ],
)  # fmt: skip
def test_the_recipe_of_a_package_makes_it_again(checkpoint: str, word: str, tmp_path: Path) -> None:
    made = []
    for recipe in (word, str(tmp_path / "0/recipe.json")):
        folder = tmp_path / str(len(made))
        contents = prepare(ORACLE / checkpoint, load_board("x86-64-v3"), parse_recipe(recipe), folder, proven=False)
        write_package(folder, contents)
        made.append([(folder / name).read_bytes() for name in ("recipe.json", "model.bin", "package.json")])
    assert made[0] == made[1]
    text = recipe_text(parse_recipe(str(tmp_path / "0/recipe.json")))
    assert parse_recipe(text).rules == parse_recipe(word).rules
    for part in word.split(":"):
        assert part in text.split(":") or part.startswith(("drop", "kv=f32")), part


def test_the_recipe_of_a_sensor_model(tmp_path: Path) -> None:
    make_package(sensor("top1-e3-tiny"), tmp_path / "s")
    assert parse_recipe(str(tmp_path / "s/recipe.json")) == Options(folds={})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a9", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a8:kv=f16", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": -1, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {"x": [1]}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {"1": [-1]}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 99999999999, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f8", "context": 0, "dropped_experts": {}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}, "further": 1}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}, "rules": {"heads": "w8a8"}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}, "rules": {"head": "w8"}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}, "rules": {"\\n": "f32"}}',
        '{"schema": 3, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}, "rules": ["head"]}',
        '{"schema": "3"}',
    ],
)
def test_files_that_are_no_recipes(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(BadInput) as caught:
        parse_recipe(str(tmp_path / "recipe.json"))
    assert str(caught.value).startswith(str(tmp_path / "recipe.json")) and "\n" not in str(caught.value)
    with pytest.raises(ColibriError):
        parse_recipe(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("w8a8:drop=0.9", "layer 0 has no expert 9"),
        ("w8a8:shared=w4a8", "rule 'shared=w4a8': there is no such matrix"),
        ("w8a8:context=512", "--context: 512"),
        ("w8a8:source=8", "--source: is for models with an encoder"),
    ],
)
def test_a_recipe_for_another_checkpoint(recipe: str, message: str, tmp_path: Path) -> None:
    """On the command line it is wrong usage; of a file the file is wrong."""
    options = parse_recipe(recipe)
    with pytest.raises(UsageError) as typed:
        build_graph(Checkpoint.open(ORACLE / "mixtral-base"), options)
    assert message in str(typed.value)
    drops = {str(layer): sorted(ids) for layer, ids in options.drop.items()}
    whole = {"schema": 3, "scheme": "w8a8", "kv": "f32", "context": options.context or 0, "dropped_experts": drops}
    whole |= {"rules": {str(rule.selector): str(rule.scheme) for rule in options.rules}, "source": options.source or 0}
    (tmp_path / "recipe.json").write_text(json.dumps(whole))
    with pytest.raises(BadInput) as read:
        build_graph(Checkpoint.open(ORACLE / "mixtral-base"), parse_recipe(str(tmp_path / "recipe.json")))
    assert str(read.value).startswith(f"{tmp_path / 'recipe.json'}: is no recipe for ") and message in str(read.value)


def test_a_file_is_for_the_checkpoint_it_was_made_of(tmp_path: Path) -> None:
    """Also where both have the same tensors: experts by number mean nothing in the other."""
    first, second = write_mixtral(tmp_path / "first"), write_mixtral(tmp_path / "second", seed=8)
    options = parse_recipe("w4a8:kv=f16:context=16:drop=0.1")
    recipe = recipe_bytes(build_graph(Checkpoint.open(first), options), options, Checkpoint.open(first).fingerprint())
    (tmp_path / "recipe.json").write_bytes(recipe)
    read = parse_recipe(str(tmp_path / "recipe.json"))
    assert build_graph(Checkpoint.open(first), read).expert_counts() == (3, 4)
    with pytest.raises(BadInput) as caught:
        build_graph(Checkpoint.open(second), read)
    assert str(caught.value) == (
        f"{tmp_path / 'recipe.json'}: was made for another checkpoint than {second}; experts, scales and data in it "
        "mean nothing there; for the rest say --recipe w4a8:kv=f16:context=16"
    )
    build_graph(Checkpoint.open(second), parse_recipe("w4a8:kv=f16:context=16"))
