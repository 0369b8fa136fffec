"""Checkpoints that an importer refuses: one line, exit code 5, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from make_bad import CASES, CONFIG, Case, Stage, tiny_mixtral, write_checkpoint
from small_models import HOST_BOARD, loaded, sensor_arrays, write_mixtral, write_sensor

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.cli import main
from colibri.errors import BadInput, UsageError


def refused(folder: Path, options: ImportOptions | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        loaded(import_graph(Checkpoint.open(folder), options or ImportOptions()))
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("case", [case for case in CASES if case.stage is not Stage.ACCEPTED], ids=lambda c: c.name)
def test_generate_ends_with_one_line_and_writes_nothing(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.build(tmp_path / case.name)
    before = sorted(tmp_path.rglob("*"))
    code = main(["generate", str(tmp_path / case.name), "--board", HOST_BOARD, "-o", str(tmp_path / "out" / "deep")])
    out, err = capsys.readouterr()
    assert code == 5 and out == ""
    assert err.startswith("colibri: ") and err.count("\n") == 1 and "Traceback" not in err
    for words in case.words:
        assert words in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("case", [case for case in CASES if case.stage is Stage.ACCEPTED], ids=lambda c: c.name)
def test_the_accepted_ones_are_generated(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.build(tmp_path / case.name)
    arguments = ["generate", str(tmp_path / case.name), "--board", HOST_BOARD, "--context", "8"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "model.bin").is_file()
    assert "parameters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": None}, "has no 'hidden_size'"),
        ({"hidden_size": 17}, "hidden_size 17 is not a multiple of num_attention_heads 4; set head_dim"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3 does not divide num_attention_heads 4"),
        ({"head_dim": 3}, "head_dim 3 is odd"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok is 0, expected at least 1"),
        ({"num_local_experts": True}, "num_local_experts is true, expected an integer"),
        ({"hidden_act": "mish"}, "hidden_act 'mish' is not supported; one of silu"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "has no 'rope_parameters.factor'"),
        ({"rope_parameters": {"rope_type": "xpos"}}, "rope_type 'xpos' is not supported; one of default, linear"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 0}},
            "rope_parameters.factor is 0, expected at least 0.001",
        ),
        ({"rope_parameters": {"rope_theta": 0.0}}, "rope_theta is 0.0; frequencies need a base of at least 1"),
        ({"rope_parameters": {"rope_theta": -1.0}}, "rope_theta is -1.0, expected at least 0"),
        ({"rms_norm_eps": -1.0}, "rms_norm_eps is -1.0, expected 0.0 to 1.0"),
        ({"sliding_window": 0}, "sliding_window is 0, expected at least 1"),
        ({"vocab_size": 41}, "model.embed_tokens.weight: shape 40×16, expected 41×16 (vocab_size)"),
        ({"num_hidden_layers": 1}, "for layer 1, but config.json says 1 layers"),
        ({"intermediate_size": 23}, "intermediate_size"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_mixtral_configs(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    write_checkpoint(tmp_path / "m", CONFIG | changes, tiny_mixtral())
    assert words in refused(tmp_path / "m")


def test_more_context_than_the_checkpoint_has(tmp_path: Path) -> None:
    write_mixtral(tmp_path / "m")
    with pytest.raises(UsageError, match="--context: 65 is more than the 64 positions of the checkpoint"):
        import_graph(Checkpoint.open(tmp_path / "m"), ImportOptions(context=65))


@pytest.mark.parametrize("number", ["9" * 5000, "007", "\u0661"])
@pytest.mark.parametrize("name", ["model.layers.{}.input_layernorm.weight", "model.layers.0.mlp.experts.{}.w1.weight"])
def test_numbers_in_names_that_no_layer_has(tmp_path: Path, name: str, number: str) -> None:
    arrays = tiny_mixtral() | {name.format(number): np.zeros(8, np.float32)}
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    message = refused(tmp_path / "m")
    assert "tensor model.layers." in message and len(message) < 700


def test_half_a_character_in_a_label(tmp_path: Path) -> None:
    folder = write_sensor(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"inputs": ["\ud800x"] * config["input_dim"]}))
    assert "the text '\\ud800x' has half a character (a lone surrogate)" in refused(folder)


def test_a_tied_head_that_is_stored_and_equal_is_named(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()
    write_checkpoint(tmp_path / "m", CONFIG | {"tie_word_embeddings": True}, arrays)
    graph = import_graph(Checkpoint.open(tmp_path / "m"), ImportOptions())
    assert graph.dropped == ["lm_head.weight: equal to the embedding it is tied to"]


def test_stored_frequencies_are_left_out_by_name(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    arrays["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float32)
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    graph = import_graph(Checkpoint.open(tmp_path / "m"), ImportOptions())
    (note,) = graph.dropped
    assert note == "model.layers.0.self_attn.rotary_emb.inv_freq: the frequencies follow from rope_theta (8 bytes)"


@pytest.mark.parametrize("key", ["input_dim", "model_dim", "expert_hidden", "num_experts", "top_k", "output_dim"])
def test_each_key_of_a_sensor_model_is_needed(tmp_path: Path, key: str) -> None:
    write_sensor(tmp_path / "m", **{key: None})
    assert "no model_type, and not the keys of a sensor model" in refused(tmp_path / "m")
    write_sensor(tmp_path / "n", model_type="moe_mlp", **{key: None})
    assert f"has no '{key}'" in refused(tmp_path / "n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"top_k": 0}, "top_k is 0, expected at least 1"),
        ({"top_k": 5}, "top_k is 5, but there are 4 experts"),
        ({"top_k": True}, "top_k is true, expected an integer"),
        ({"top_k": 2.0}, "top_k is 2.0, expected an integer"),
        ({"top_k": "2"}, "top_k is '2', expected an integer"),
        ({"num_experts": -1}, "num_experts is -1, expected 1 to 4096"),
        ({"num_experts": 3}, "moe.gate.weight"),
        ({"num_experts": 5}, "moe.gate.weight"),
        ({"input_dim": 4}, "inp.weight"),
        ({"expert_hidden": 7}, "moe.experts.0.fc1.weight"),
        ({"activation": "swish2"}, "activation is 'swish2', expected"),
        ({"activation": 1}, "activation is 1, expected a string"),
        ({"norm_topk_prob": 1}, "norm_topk_prob is 1, expected true or false"),
        ({"inputs": ["a", "b"]}, "inputs names 2, but there are 5"),
        ({"outputs": ["a", "b", "c"]}, "outputs names 3, but there are 2"),
        ({"outputs": ["a", 2]}, "outputs[1] is 2, expected a string"),
        ({"inputs": "abcde"}, "inputs is 'abcde', expected a list"),
        (
            {"model_type": "moe_mlp2"},
            "model type 'moe_mlp2' is not supported; supported model types: deepseek_v2, ",
        ),
        ({"input_dim": 2**31}, "input_dim is 2147483648, expected at most 2147483647"),
    ],
    ids=lambda value: "-".join(f"{k}-{v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_sensor_configs(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    assert words in refused(write_sensor(tmp_path / "m", **changes))


def test_a_sensor_model_has_no_context(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--context: is for token models; a sensor model has no context"):
        import_graph(Checkpoint.open(write_sensor(tmp_path / "m")), ImportOptions(context=8))


def edit_arrays(edit: Callable[[dict[str, np.ndarray]], object]) -> dict[str, np.ndarray]:
    arrays = sensor_arrays()
    edit(arrays)
    return dict(sorted(arrays.items()))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda a: a.pop("moe.experts.2.fc2.bias"), "moe.experts.2.fc2.bias"),
        (lambda a: a.pop("out.weight"), "out.weight"),
        (lambda a: a.update({"moe.experts.4.fc1.weight": a["moe.experts.0.fc1.weight"]}), "moe.experts.4.fc1.weight"),
        (lambda a: a.update({"extra": np.zeros(3, np.float32)}), "extra"),
        (lambda a: a.update({"inp.weight": a["inp.weight"].T.copy()}), "inp.weight"),
        (lambda a: a.update({"out.bias": a["out.bias"] * np.nan}), "out.bias"),
    ],
    ids=["bias missing", "layer missing", "expert too many", "unknown", "transposed", "nan"],
)
def test_sensor_tensors(tmp_path: Path, edit: Callable[[dict[str, np.ndarray]], object], words: str) -> None:
    assert words in refused(write_sensor(tmp_path / "m", edit_arrays(edit)))


def test_model_type_may_be_written_or_left_out(tmp_path: Path) -> None:
    for name, model_type in (("without", None), ("with", "moe_mlp")):
        graph = import_graph(Checkpoint.open(write_sensor(tmp_path / name, model_type=model_type)), ImportOptions())
        assert graph.family == "moe_mlp"


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"a": 1, "a": 2}', "null", "\x00"])
def test_config_files_that_are_no_config(tmp_path: Path, text: str) -> None:
    write_sensor(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text(text)
    assert "config.json" in refused(tmp_path / "m")


def test_labels_are_kept(tmp_path: Path) -> None:
    labels = {"inputs": list("abcde"), "outputs": ["load", "peak"]}
    graph = import_graph(Checkpoint.open(write_sensor(tmp_path / "m", **labels)), ImportOptions())
    assert graph.labels == {"inputs": tuple("abcde"), "outputs": ("load", "peak")}
    assert json.loads((tmp_path / "m" / "config.json").read_text())["outputs"] == ["load", "peak"]
