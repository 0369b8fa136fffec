"""Which files make up a checkpoint, and what is refused beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from make_bad import INDEX, tiny_mixtral, write_arrays, write_checkpoint, write_shards

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import BadInput


def refusal(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        Checkpoint.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_folder(tmp_path: Path) -> None:
    assert "no such checkpoint folder" in refusal(tmp_path / "absent")
    assert "no such checkpoint folder" in refusal(Path("owner\0/name"))
    assert "no such checkpoint folder" in refusal(tmp_path / ("n" * 5000))
    assert "no weights" in refusal(tmp_path)


def test_a_file_stands_for_its_folder_when_it_is_the_only_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    file = tmp_path / "model.safetensors"
    assert Checkpoint.open(file).where == str(tmp_path)
    assert Checkpoint.open(str(file)).name == tmp_path.name
    assert "is no file of weights" in refusal(tmp_path / "config.json")
    write_arrays(tmp_path / "other.safetensors", {})
    assert "one of several weight files" in refusal(file)


def test_the_only_file_may_have_any_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "sensor.safetensors")
    assert len(Checkpoint.open(tmp_path).names()) == len(tiny_mixtral())
    (tmp_path / "sensor.safetensors").rename(tmp_path / "adapter_model.safetensors")
    assert "is an adapter" in refusal(tmp_path)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "a.safetensors")
    write_arrays(tmp_path / "b.safetensors", {})
    assert "several weight files ('a.safetensors', 'b.safetensors'" in refusal(tmp_path)


def test_stray_file_is_refused_and_consolidated_is_noted(tmp_path: Path) -> None:
    write_shards(tmp_path)
    write_arrays(tmp_path / "consolidated.safetensors", {})
    (note,) = Checkpoint.open(tmp_path)._dropped
    assert note.name == "consolidated.safetensors" and INDEX in note.reason
    write_arrays(tmp_path / "model.safetensors", tiny_mixtral())
    assert f"'model.safetensors' lies beside the model, yet {INDEX} does not name it" in refusal(tmp_path)
    (tmp_path / INDEX).unlink()
    assert "'model-00001-of-00002.safetensors' lies beside the model" in refusal(tmp_path)


def test_shards_without_index(tmp_path: Path) -> None:
    first, second = write_shards(tmp_path)
    (tmp_path / INDEX).unlink()
    assert f"'{first}' is a shard, but {INDEX} is missing" in refusal(tmp_path)
    (tmp_path / second).unlink()
    assert f"'{first}' is a shard, but {INDEX} is missing" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/x.safetensors",
        "a/../../x.safetensors",
        "..\\x.safetensors",
        "C:x.safetensors",
        "a\0.safetensors",
    ],
)
def test_index_leaves_the_folder(name: str, tmp_path: Path) -> None:
    write_arrays(tmp_path / "x.safetensors", {})
    folder = tmp_path / "model"
    write_shards(folder, lambda weight_map: weight_map.update({"model.norm.weight": name}))
    message = refusal(folder)
    assert "'model.norm.weight'" in message and "a path that leaves the checkpoint folder" in message


def test_links(tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside.safetensors"
    first, _ = write_shards(folder)
    (folder / first).rename(outside)
    (folder / first).symlink_to(outside)
    assert "a link that leaves the checkpoint folder" in refusal(folder)
    (folder / first).unlink()
    (folder / "data").mkdir()
    outside.rename(folder / "data" / "blob")
    (folder / first).symlink_to("data/blob")
    assert Checkpoint.open(folder).has("model.norm.weight")
    (folder / first).unlink()
    (folder / first).symlink_to(first)
    assert first in refusal(folder)


def test_link_of_a_single_file_that_leaves(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert "a link that leaves the checkpoint folder" in refusal(tmp_path / "model")


def test_cache_of_links_into_blobs_is_read(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    write_checkpoint(snapshot)
    (tmp_path / "models--a--b" / "blobs").mkdir()
    for file in list(snapshot.iterdir()):
        blob = tmp_path / "models--a--b" / "blobs" / file.stem
        file.rename(blob)
        file.symlink_to(Path("../../blobs") / blob.name)
    assert len(Checkpoint.open(snapshot).names()) == len(tiny_mixtral())


def last_of(weight_map: dict[str, str]) -> str:
    return list(weight_map.values())[-1]


def test_index_against_shards(tmp_path: Path) -> None:
    swapped, short, unknown, extra = (tmp_path / name for name in ("swapped", "short", "unknown", "extra"))
    _, second = write_shards(swapped, lambda weight_map: weight_map.update({"lm_head.weight": last_of(weight_map)}))
    assert f"puts tensor 'lm_head.weight' in '{second}', which has not got it" in refusal(swapped)
    write_shards(short, lambda weight_map: weight_map.__delitem__("model.norm.weight"))
    assert "does not list tensor 'model.norm.weight'" in refusal(short)
    write_shards(unknown, lambda weight_map: weight_map.update({"ghost": next(iter(weight_map.values()))}))
    assert "'ghost'" in refusal(unknown) and "no shard has it" in refusal(unknown)
    first, second = write_shards(extra)
    norm = {"lm_head.weight": tiny_mixtral()["lm_head.weight"]}
    write_arrays(extra / second, norm)
    assert f"tensor 'lm_head.weight' is in '{first}' and in '{second}'" in refusal(extra)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{", "is not JSON"),
        ("{}", "has no weight_map"),
        ('{"weight_map": {}}', "has no weight_map"),
        ('{"weight_map": []}', "has no weight_map"),
        ('{"weight_map": {"a": 1}}', "gives 'a' something that is not a file name"),
        ('{"weight_map": {"a": "config.json"}}', "which is not a .safetensors file"),
        ('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', "the key 'a' stands twice"),
        (json.dumps({"weight_map": {"a": "n" * 5000 + ".safetensors"}}), "absent"),
    ],
)
def test_damaged_index(index: str, words: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / INDEX).write_text(index)
    assert words in refusal(tmp_path)


def test_pickles_beside_safetensors_are_not_looked_at(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert Checkpoint.open(tmp_path).has("lm_head.weight")


@pytest.mark.parametrize("name", ["model.pt", "weights.pkl", "a.pth", "$(reboot)'.bin"])
def test_pickle_hint_is_safe_to_paste(name: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / name)
    what, hint = refusal(tmp_path).split("python -c", 1)
    assert "only a pickle" in what and "weights_only=True" in hint and "$" not in hint


def test_config_is_required(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "config.json").rename(tmp_path / "params.json")
    assert "no config.json; params.json is the vendor's own form" in refusal(tmp_path)
    (tmp_path / "params.json").unlink()
    assert "no config.json; put that of the model beside its weights" in refusal(tmp_path)


def test_a_file_that_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert Checkpoint.open(file).has("model.norm.weight")
    (tmp_path / "nowhere").symlink_to("nothing")
    for path in (tmp_path / "nowhere", Path("/dev/zero")):
        assert "is neither a folder nor a file" in refusal(path)
