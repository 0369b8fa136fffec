"""`--scheme`, `--set` and `--recipe`: one meaning, whichever way it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from colibri.cli import main

ROOT = Path(__file__).resolve().parents[2]
MIXTRAL = str(ROOT / "tests" / "oracle" / "mixtral-base")


def generate(out: Path, *options: str) -> int:
    return main(["generate", MIXTRAL, "--board", "x86-64-v3", "-o", str(out), *options])


def test_options_and_recipe_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ("--scheme", "w4a8", "--set", "head=w8a16", "--set", "0.experts.down=w8a8", "--context", "8")
    assert generate(tmp_path / "a", *typed) == 0
    word = "w4a8:head=w8a16:0.experts.down=w8a8:context=8"
    assert generate(tmp_path / "b", "--recipe", word, "--prefill", "1") == 0
    assert generate(tmp_path / "c", "--recipe", str(tmp_path / "a/recipe.json")) == 0
    capsys.readouterr()
    for name in ("recipe.json", "model.bin", "package.json", "model.h", "src/model.c"):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abc"}) == 1, name
    told = json.loads((tmp_path / "a/package.json").read_text())
    assert told["scheme"] == "w4a8:0.experts.down=w8a8:head=w8a16"
    assert told["schemes"]["0.experts.down"] == "w8a8" and told["schemes"]["head"] == "w8a16"
    header = (tmp_path / "a/model.h").read_text()
    assert " * Weights: embedding w4, attention w4a8, experts w4a8, 0.experts.down w8a8, head w8a16" in header
    assert "head w8a16" in (tmp_path / "a/README.md").read_text()
    assert b'"0.experts.down":"w8a8"' in (tmp_path / "a/model.bin").read_bytes()


def test_what_code_is_made_for_goes_with_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ("--context", "8")
    assert generate(tmp_path / "a", "--optimise", "size", *short) == 0
    assert generate(tmp_path / "b", "--recipe", "w8a8:optimise=size:context=8") == 0
    assert generate(tmp_path / "c", "--recipe", str(tmp_path / "a/recipe.json")) == 0
    for name in ("recipe.json", "model.bin", "package.json", "src/model.c", "build.ninja", "CMakeLists.txt"):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abc"}) == 1, name
    assert json.loads((tmp_path / "a/package.json").read_text())["optimise"] == "size"
    assert " -Os -g " in (tmp_path / "a/build.ninja").read_text()
    assert " -Os -g " in (tmp_path / "a/CMakeLists.txt").read_text()
    for folder, said in (("d", ()), ("e", ("--optimise", "speed"))):
        assert generate(tmp_path / folder, *said, *short) == 0
        assert "optimise" not in (tmp_path / folder / "recipe.json").read_text()
        assert " -O2 -g " in (tmp_path / folder / "build.ninja").read_text()
    speed = str(tmp_path / "d/recipe.json")
    assert generate(tmp_path / "f", "--recipe", speed, "--optimise", "size") == 0
    assert (tmp_path / "f/recipe.json").read_bytes() == (tmp_path / "a/recipe.json").read_bytes()
    assert generate(tmp_path / "g", "--recipe", str(tmp_path / "a/recipe.json"), "--optimise", "speed") == 2
    assert "--optimise beside --recipe: is a part of the recipe" in capsys.readouterr().err


def test_threads_stand_beside_a_recipe(tmp_path: Path) -> None:
    assert generate(tmp_path / "a", "--threads", "2", "--context", "8") == 0
    assert generate(tmp_path / "b", "--threads", "2", "--recipe", "w8a8:context=8") == 0
    assert generate(tmp_path / "c", "--threads", "2", "--recipe", str(tmp_path / "a/recipe.json")) == 0
    for name in ("package.json", "src/model.c"):
        assert len({(tmp_path / folder / name).read_bytes() for folder in "abc"}) == 1, name
    assert json.loads((tmp_path / "a/package.json").read_text())["threads"] == 2


def test_code_for_size_knows_one_thread_however_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--optimise", "size", "--context", "8"), ("--recipe", "w8a8:optimise=size:context=8")
    for size in said:
        assert generate(tmp_path / "a", "--threads", "2", *size) == 2
        assert "--threads: code for size knows of one alone" in capsys.readouterr().err
        assert not (tmp_path / "a").exists()


def test_a_file_is_not_blamed_for_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(tmp_path / "a", "--context", "8") == 0
    assert generate(tmp_path / "b", "--recipe", str(tmp_path / "a/recipe.json"), "--batch", "2") == 2
    assert "colibri: --batch: is for sensor models" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--scheme", "w9a8"), 2, "coding 'w9': there are no weights of 9 bits"),
        (("--scheme", "w4"), 2, "scheme 'w4': activations have 8 or 16 bits: w4a8 or w4a16"),
        (("--set", "experts"), 2, "rule: 'experts' is not SELECTOR=SCHEME; for example experts=w4a8"),
        (("--set", "expert=w8a8"), 2, "'expert' is no class of matrices; did you mean 'experts'?"),
        (("--set", "shared=w8a8"), 2, "rule 'shared=w8a8': there is no such matrix; the model has embedding"),
        (("--set", "head=w8a8", "--set", "head=f32"), 2, "two rules for head: contradict each other: w8a8 and f32"),
        (("--set", "experts.up=f32"), 2, "0.experts: gate is w8a8 and up f32, but they read the same numbers"),
        (("--recipe", "w4a8", "--scheme", "w8a8"), 2, "--scheme beside --recipe: is a part of the recipe"),
        (("--recipe", "w4a8", "--set", "head=w8a8"), 2, "--set beside --recipe: is a part of the recipe"),
        (("--recipe", "w4a8", "--drop-expert", "0:1"), 2, "--drop-expert beside --recipe"),
        (("--recipe", "w4a8:optimise"), 2, "'optimise' is no key with a value; say its value, optimise=…"),
        (("--recipe", "w4a8:prefill=2", "--prefill", "3"), 2, "--prefill beside --recipe"),
        (("--recipe", "w4a8:drop=0.9"), 2, "recipe 'w4a8:drop=0.9': layer 0 has no expert 9"),
        (("--drop-expert", "0:9"), 2, "--drop-expert: layer 0 has no expert 9"),
        (("--recipe", "w4a8:merge=0.9-1@0.5"), 2, "merged experts: layer 0 has no expert 9 to merge"),
        (("--recipe", "w4a8:drop=0.1:merge=0.2-1@0.5"), 2, "layer 0 expert 2 goes into expert 1, which is dropped"),
        (
            ("--recipe", "w4a8:merge=" + ",".join(f"0.{i}-0@0.5" for i in range(1, 8))),
            2,
            "layer 0 would keep 1 expert",
        ),
        (("--scheme", ""), 2, "coding '': is none"),
        (("--recipe", "w4a8", "--scheme", ""), 2, "--scheme beside --recipe: is a part of the recipe"),
        (("--recipe", "none.json"), 5, "none.json"),
    ],
)
def test_one_line_for_what_cannot_be_meant(
    options: tuple[str, ...], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(tmp_path / "out", *options) == code
    said = capsys.readouterr().err.strip()
    assert message in said and "\n" not in said
    assert not (tmp_path / "out").exists()


WHOLE = {"schema": 3, "scheme": "w4a8", "kv": "f32", "context": 8, "dropped_experts": {}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"scheme": "w8a8", ' + json.dumps(WHOLE)[1:], "the key 'scheme' stands twice"),
        (json.dumps(WHOLE).replace("{}", '{"0": [1], "0": [2]}'), "the key '0' stands twice"),
        (json.dumps(WHOLE | {"dropped_experts": {"00": [2]}}), "dropped_experts: '00' is no number of a layer"),
        (json.dumps(WHOLE | {"dropped_experts": {"0": [0, 2, 0]}}), "layer 0 names expert 0 twice"),
        (json.dumps(WHOLE | {"folds": {"x\x1b": {"1": [0]}}}), "no scales can be folded at 'x\\x1b' of this model"),
        (
            json.dumps(WHOLE | {"merges": [{"layer": 0, "into": 1, "gone": 9, "share": 0.5}]}),
            f"is no recipe for {MIXTRAL}: merged experts: layer 0 has no expert 9 to merge",
        ),
        (
            json.dumps(WHOLE | {"dropped_experts": {"0": [1, 2, 3, 4, 5, 6, 7]}}),
            f"is no recipe for {MIXTRAL}: dropped_experts: layer 0 would keep 1 expert, but its router chooses 2",
        ),
        (json.dumps(WHOLE | {"checkpoint": "cafe"}), "checkpoint 'cafe' is no SHA-256"),
        (json.dumps(WHOLE | {"schema": 2}), "recipe schema 2, this Colibri reads 3; generate the package again"),
    ],
    ids=["key", "layer", "zeros", "id", "fold", "merge", "drops", "fingerprint", "schema"],
)
def test_a_file_that_says_what_cannot_be_meant(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    assert generate(tmp_path / "out", "--recipe", str(path)) == 5
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"colibri: {path}: ") and message in said and "\n" not in said
    assert not (tmp_path / "out").exists()


def test_inspect_takes_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["inspect", MIXTRAL, "--recipe", "w8a8", "--recipe", "f32:experts=w4a8:kv=f16:context=8", "--json"]) == 0
    )
    facts = json.loads(capsys.readouterr().out)
    names = ["w8a8", "f32:experts=w4a8:kv=f16:context=8"]
    assert list(dict.fromkeys(fit["scheme"] for fit in facts["fits"])) == names
    sizes = {part["name"]: part["bytes"] for part in facts["parts"]}
    assert sizes["attention"][names[1]] > 3 * sizes["attention"][names[0]]
    assert sizes["experts"][names[1]] < sizes["experts"][names[0]]
    assert {fit["kv"] for fit in facts["fits"] if fit["scheme"] == names[1]} == {"f16"}
    assert main(["inspect", MIXTRAL, "--recipe", "w8a8:context=8", "--context", "9"]) == 2
    assert "--context beside --recipe: is a part of the recipe" in capsys.readouterr().err
    assert main(["inspect", MIXTRAL, "--recipe", "w8a8:shared=w4a8"]) == 2
