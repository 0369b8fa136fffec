"""Typed access to config.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from colibri.checkpoint.config import Config, read_rope
from colibri.checkpoint.files import LocalFile
from colibri.errors import BadInput


def config_of(**table: object) -> Config:
    return Config("m/config.json", table)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        call()
    return str(caught.value)


def test_values_of_each_type() -> None:
    config = config_of(i=3, f=1e-5, whole=2, b=False, t="silu", li=[1, 2], lf=[1, 0.5], lt=["a"], s={"x": 1}, n=None)
    assert config.integer("i") == 3
    assert config.number("f") == 1e-5
    assert config.number("whole") == 2.0 and isinstance(config.number("whole"), float)
    assert config.boolean("b") is False
    assert config.text("t", choices=("silu", "gelu")) == "silu"
    assert config.integers("li") == (1, 2)
    assert config.numbers("lf") == (1.0, 0.5)
    assert config.texts("lt") == ("a",)
    assert config.section("s").integer("x") == 1
    assert config.has("i") and not config.has("n") and not config.has("absent")


def test_null_is_absent() -> None:
    config = config_of(n=None)
    assert config.optional_integer("n") is None
    assert config.optional_number("n") is None
    assert config.optional_boolean("n") is None
    assert config.optional_text("n") is None
    assert config.optional_section("n") is None
    assert config.integers("n") == () and config.texts("n") == () and config.numbers("n") == ()
    assert config.integer("n", default=7) == 7
    assert refused(lambda: config.integer("n")) == "m/config.json: has no 'n'"


@pytest.mark.parametrize("value", [True, 2.0, "2", [2], {}])
def test_not_an_integer(value: object) -> None:
    message = refused(lambda: config_of(k=value).integer("k"))
    assert message.startswith("m/config.json: k is ") and message.endswith("expected an integer")


def test_ranges_name_the_key() -> None:
    config = config_of(k=0, big=2**31, f=-1.0, huge=1e39)
    assert refused(lambda: config.integer("k", minimum=1)) == "m/config.json: k is 0, expected at least 1"
    assert refused(lambda: config.integer("k", minimum=1, maximum=4)) == "m/config.json: k is 0, expected 1 to 4"
    assert "big is 2147483648, expected at most 2147483647" in refused(lambda: config.integer("big"))
    assert "f is -1.0, expected at least 0.0" in refused(lambda: config.number("f", minimum=0.0))
    assert "huge is 1e+39, expected at most 3.4" in refused(lambda: config.number("huge"))


def test_wrong_types_elsewhere() -> None:
    config = config_of(b=1, t=3, li=[1, "x"], lt=["a", 2], s=[], c="tanh", f=True)
    assert "b is 1, expected true or false" in refused(lambda: config.boolean("b"))
    assert "t is 3, expected a string" in refused(lambda: config.text("t"))
    assert "li[1] is 'x', expected an integer" in refused(lambda: config.integers("li"))
    assert "lt[1] is 2, expected a string" in refused(lambda: config.texts("lt"))
    assert "s is a list, expected an object" in refused(lambda: config.section("s"))
    assert "c is 'tanh', expected 'silu' or 'gelu'" in refused(lambda: config.text("c", choices=("silu", "gelu")))
    assert "f is true, expected a number" in refused(lambda: config.number("f"))


def test_alternative_keys() -> None:
    key = "num_local_experts|num_experts"
    assert config_of(num_experts=8).integer(key) == 8
    assert config_of(num_local_experts=8, num_experts=8).integer(key) == 8
    assert config_of(num_local_experts=None, num_experts=8).integer(key) == 8
    message = refused(lambda: config_of(num_local_experts=8, num_experts=10).integer(key))
    assert "num_local_experts is 8 but num_experts is 10" in message
    assert "has no 'num_local_experts' or 'num_experts'" in refused(lambda: config_of().integer(key))
    assert "num_experts is 0" in refused(lambda: config_of(num_experts=0).integer(key, minimum=1))
    assert "k is true but j is 1" in refused(lambda: config_of(k=True, j=1).boolean("k|j"))


def test_nested_error_names_the_path() -> None:
    section = config_of(rope_parameters={"factor": "4"}).section("rope_parameters")
    assert "rope_parameters.factor is '4', expected a number" in refused(lambda: section.number("factor"))
    assert "has no 'rope_parameters.absent'" in refused(lambda: section.number("absent"))


def test_rope_in_both_forms() -> None:
    new = read_rope(config_of(rope_parameters={"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0}))
    assert (new.theta, new.kind, new.settings.number("factor")) == (1e6, "yarn", 4.0)
    old = read_rope(config_of(rope_theta=5e5, rope_scaling={"type": "llama3", "factor": 8.0}))
    assert (old.theta, old.kind, old.settings.number("factor")) == (5e5, "llama3", 8.0)
    bare = read_rope(config_of(rope_scaling=None), default_theta=7.0)
    assert (bare.theta, bare.kind) == (7.0, "default")
    assert read_rope(config_of(rope_theta=3.0, rope_parameters={"rope_type": "default"})).theta == 3.0


def test_rope_that_contradicts_itself() -> None:
    both = config_of(rope_theta=1.0, rope_parameters={"rope_theta": 2.0})
    assert "rope_theta is 1.0 but rope_parameters.rope_theta is 2.0" in refused(lambda: read_rope(both))
    kinds = config_of(rope_scaling={"type": "linear"}, rope_parameters={"rope_type": "yarn"})
    assert "'linear'" in refused(lambda: read_rope(kinds))
    per_layer = config_of(rope_parameters={"full_attention": {"rope_theta": 1.0}})
    assert "rope_parameters.full_attention" in refused(lambda: read_rope(per_layer))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ('{"a": 1}\n}', "line 2, column 1"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ('{"x": {"b": 1, "b": 1}}', "the key 'b' stands twice"),
        ('{"q": "NaN",\n "a": NaN}', "line 2 has the number NaN"),
        ('{"a":\n\n -Infinity}', "line 3 has the number -Infinity"),
        ('{"a": 1e999}', "the number 1e999 is too large"),
        ('{"a": ' + "9" * 5000 + "}", "is too large"),
        ("[1]", "holds a JSON list"),
        ("", "line 1, column 1"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a": "\n"}', "line 1"),
    ],
)
def test_not_json(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    message = refused(lambda: Config.read(LocalFile(file)))
    assert words in message and str(file) in message and len(message) < 600


def test_odd_files(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    assert "no such file" in refused(lambda: Config.read(LocalFile(file)))
    file.mkdir()
    assert "is not a file" in refused(lambda: Config.read(LocalFile(file)))
    file.rmdir()
    file.write_bytes(b'{\n"a": "\xff"}')
    assert "line 2 is not UTF-8" in refused(lambda: Config.read(LocalFile(file)))
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 1}).encode())
    assert Config.read(LocalFile(file)).integer("a") == 1
    with file.open("wb") as big:
        big.truncate((8 << 20) + 1)
    assert "more than the 8388608" in refused(lambda: Config.read(LocalFile(file)))


def test_hostile_text_is_printed_harmlessly(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"a": "\\u001b[2J\\ud800\\n' + "x" * 5000 + '"}')
    message = refused(lambda: Config.read(LocalFile(file)).text("a", choices=("b",)))
    assert message.isprintable() and message.encode() and len(message) < 400
