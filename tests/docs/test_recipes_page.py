"""docs/recipes.md: what it shows is read, runs, and says what stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.cli import main
from colibri.graph.graph import TensorClass
from colibri.graph.scheme import Scheme
from colibri.passes.rules import Rule, assign, ordered
from colibri.recipe import parse_recipe, recipe_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
SHAKESPEARE = ROOT / "examples" / "shakespeare-moe"


def test_commands_say_what_can_be_meant() -> None:
    lines = [shlex.split(line) for line in re.findall(r"^    (colibri .*)$", PAGE, re.MULTILINE)]
    words = [lines[i][j + 1] for i in range(len(lines)) for j, word in enumerate(lines[i]) if word == "--recipe"]
    assert len(words) > 4
    for word in words:
        if word.endswith(".json"):
            continue
        options = parse_recipe(word)
        assert recipe_text(options) == word
        assign(import_graph(Checkpoint.open(SHAKESPEARE), ImportOptions()), options.scheme, options.rules)
    typed = lines[0]
    rules = [Rule.parse(typed[j + 1]) for j, word in enumerate(typed) if word == "--set"]
    scheme, context = (typed[typed.index(name) + 1] for name in ("--scheme", "--context"))
    assert f"{':'.join(map(str, (scheme, *ordered(rules))))}:context={context}" == words[0]


def test_schemes_in_the_text_are_schemes() -> None:
    page = (ROOT / "docs" / "schemes.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (w\S+) \| [0-9.]+ \|", page, re.MULTILINE)
    assert len(set(shown)) > 20
    for text in shown:
        assert str(Scheme.parse(text)) == text


def test_every_class_has_a_row() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| .* \| .*\|$", PAGE, re.MULTILINE)
    assert [row for row in rows if row in list(TensorClass)] == [str(one) for one in TensorClass]


def test_the_error_is_the_real_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((command, said),) = re.findall(r"^\$ (colibri generate .*)\n(colibri: .*)$", PAGE, re.MULTILINE)
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in shlex.split(command)[1:]]
    assert main([*words, "-o", str(tmp_path / "p")]) == 2
    assert capsys.readouterr().err.strip() == said


def test_the_file_is_one(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "recipe.json").write_text(shown)
    read = parse_recipe(str(tmp_path / "recipe.json"))
    assert recipe_text(read) == "w4a8:0.experts.down=w8a8:head=w8a16:kv=f16:context=64:drop=2.5"
