"""A recipe as one argument."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_models import ORACLE, make_package, sensor

from colibri.boards.load import load_board
from colibri.errors import BadInput, ColibriError, UsageError
from colibri.generate import generate
from colibri.graph.graph import StateType, TensorClass
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.passes.rules import Rule, Selector
from colibri.recipe import parse_recipe, recipe_text


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
        ("w4a8:head=w8a16", Options(Scheme.W4A8, rules=(Rule(Selector(TensorClass.HEAD), Scheme.W8A16),))),
    ],
)
def test_short_forms(text: str, options: Options) -> None:
    assert parse_recipe(text) == options
    assert recipe_text(options) == text


def test_equal_recipes_have_one_text() -> None:
    assert recipe_text(parse_recipe("w8a8:drop=1.1,0.2,0.2:kv=f32")) == "w8a8:drop=0.2,1.1"
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


def test_the_recipe_of_a_package_makes_it_again(tmp_path: Path) -> None:
    options = Options(Scheme.W4A8, StateType.F16, context=16, drop={0: {1}})
    generate(ORACLE / "mixtral-base", load_board("x86-64-v3"), options, tmp_path / "p")
    read = parse_recipe(str(tmp_path / "p/recipe.json"))
    assert recipe_text(read) == "w4a8:kv=f16:context=16:drop=0.1"
    generate(ORACLE / "mixtral-base", load_board("x86-64-v3"), read, tmp_path / "q")
    for name in ("recipe.json", "model.bin"):
        assert (tmp_path / "p" / name).read_bytes() == (tmp_path / "q" / name).read_bytes()
    make_package(sensor("top1-e3-tiny"), tmp_path / "s")
    assert parse_recipe(str(tmp_path / "s/recipe.json")) == Options(folds={})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 2, "scheme": "w8a9", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 2, "scheme": "w8a8:kv=f16", "kv": "f32", "context": 0, "dropped_experts": {}}',
        '{"schema": 2, "scheme": "w8a8", "kv": "f32", "context": -1, "dropped_experts": {}}',
        '{"schema": 2, "scheme": "w8a8", "kv": "f32", "context": 0, "dropped_experts": {"x": [1]}}',
    ],
)
def test_files_that_are_no_recipes(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(BadInput) as caught:
        parse_recipe(str(tmp_path / "recipe.json"))
    assert str(caught.value).startswith(str(tmp_path / "recipe.json")) and "\n" not in str(caught.value)
    with pytest.raises(ColibriError):
        parse_recipe(str(tmp_path / "none.json"))
