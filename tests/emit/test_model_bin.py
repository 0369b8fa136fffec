"""`model.bin`: the same input gives the same bytes; the ABI hash covers shapes and no weight."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from make_bad import CONFIG, tiny_mixtral, write_checkpoint
from small_models import ORACLE, load_graph, loaded, sensor, write_mixtral, write_sensor

from colibri.emit.model_bin import ModelBin, plan_model_bin
from colibri.emit.weights_file import write_model_bin
from colibri.graph.graph import Graph, StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.graph.weights import Matrix, Vector
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import pack_matrix, pack_vector, plan_layouts
from colibri.passes.prune import drop_experts
from colibri.passes.quantise import quantise_graph


def build(graph: Graph, manifest: bytes = b"{}") -> ModelBin:
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    return plan_model_bin(graph, layouts, manifest, repr([op.signature() for op in graph.ops]))


def written(graph: Graph, folder: Path, manifest: bytes = b"{}") -> bytes:
    """The file, and that as many bytes are told of as it has of weights."""
    layouts, made, told = plan_layouts(graph, KernelSet(("portable",))), build(graph, manifest), list[int]()
    folder.mkdir(parents=True, exist_ok=True)
    write_model_bin(folder / "model.bin", made, graph, layouts, told.append)
    weights = [section for section in made.sections if section.name in graph.weights]
    assert sum(told) == sum(section.bytes for section in weights)
    raw = (folder / "model.bin").read_bytes()
    assert len(raw) == made.length
    return raw


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("path", [ORACLE / "mixtral-base", sensor("top2-e4-norm")], ids=lambda path: path.name)
def test_every_field_and_every_weight_is_where_the_format_says(path: Path, scheme: Scheme, tmp_path: Path) -> None:
    graph = load_graph(path, scheme)
    manifest = b'{"name": "x"}'
    made = build(graph, manifest)
    data = written(graph, tmp_path, manifest)
    magic, version, header, total, table, count, table_crc, abi, flags, header_crc = struct.unpack_from(
        "<8sIIQQII16sII", data
    )
    assert (magic, version, header, table, flags) == (b"COLIBRI\0", 2, 64, 64, 0)
    assert total == len(data) and total % 16 == 0 and abi == made.abi_hash
    assert header_crc == zlib.crc32(data[:60])
    assert table_crc == zlib.crc32(data[table : table + 32 * count])
    end, experts = table + 32 * count, []
    for i in range(count):
        offset, length, crc, kind, layer, expert = struct.unpack_from("<QQIIII", data, table + 32 * i)
        assert offset % 16 == 0 and 0 <= offset - end < 16 and not any(data[end:offset])
        assert zlib.crc32(data[offset : offset + length]) == crc
        end = offset + length
        if kind == 2:
            experts.append((layer, expert))
        assert (kind == 3) is (i == count - 1)
        if kind == 3:
            assert data[offset : offset + length] == manifest
    assert total - end < 16
    wanted = [(op.layer, number) for op in graph.ops for number in range(len(op.experts()))]
    assert experts == wanted
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    for name, weight in loaded(graph).items():
        raw = pack_matrix(weight, layouts.matrices[name]) if isinstance(weight, Matrix) else pack_vector(weight)
        assert data[made.offsets[name] : made.offsets[name] + len(raw)] == raw


def test_the_report_knows_every_byte_but_the_alignment() -> None:
    made = build(load_graph(ORACLE / "mixtral-base", Scheme.W4A8))
    end = 0
    for section in sorted(made.sections, key=lambda section: section.offset):
        assert 0 <= section.offset - end < 16
        end = section.offset + section.bytes
    assert len({section.name for section in made.sections}) == len(made.sections)
    assert made.length - end < 16


def test_an_experts_matrices_lie_together() -> None:
    made = build(load_graph(ORACLE / "mixtral-base", Scheme.W8A8))
    parts = [section for section in made.sections if section.part == "layer 1 / expert 3"]
    assert [section.name.rsplit(".", 1)[1] for section in parts] == ["gate", "up", "down"]
    for one, two in pairwise(parts):
        assert two.offset - (one.offset + one.bytes) < 16


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_same_input_same_bytes(scheme: Scheme, tmp_path: Path) -> None:
    first, again = (written(load_graph(ORACLE / "mixtral-sharded-swa", scheme), tmp_path / run) for run in "ab")
    assert first == again


def changed_weights(graph: Graph) -> Graph:
    for name, weight in loaded(graph).items():
        if isinstance(weight, Vector):
            graph.weights[name] = Vector(weight.values * np.float32(1.5))
        else:
            assert weight.dense is not None
            graph.weights[name] = Matrix(weight.coding, weight.shape, dense=-weight.dense, bias=weight.bias)
    return graph


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_abi_hash_does_not_change_with_the_weights_or_the_manifest(scheme: Scheme, tmp_path: Path) -> None:
    plain = load_graph(ORACLE / "mixtral-base")
    other = changed_weights(load_graph(ORACLE / "mixtral-base"))
    quantise_graph(plain, scheme)
    quantise_graph(other, scheme)
    one, two = build(plain), build(other, b'{"name": "another"}')
    assert one.abi_hash == two.abi_hash and one.offsets == two.offsets
    assert written(plain, tmp_path / "a") != written(other, tmp_path / "b")


def mixtral_hash(folder: Path, scheme: Scheme = Scheme.W8A8, **changes: object) -> bytes:
    return build(load_graph(write_mixtral(folder, **changes), scheme)).abi_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 32},
        {"intermediate_size": 32},
        {"vocab_size": 48},
        {"num_hidden_layers": 3},
        {"num_local_experts": 5},
        {"num_experts_per_tok": 1},
        {"num_attention_heads": 2},
        {"num_key_value_heads": 4},
        {"max_position_embeddings": 128},
        {"sliding_window": 16},
        {"rms_norm_eps": 1e-6},
        {"hidden_act": "relu"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_abi_hash_changes_with_the_config(tmp_path: Path, changes: dict[str, object]) -> None:
    assert mixtral_hash(tmp_path / "a") != mixtral_hash(tmp_path / "b", **changes)


def test_the_abi_hash_changes_with_scheme_context_and_kv() -> None:
    path = ORACLE / "mixtral-base"
    hashes = [build(load_graph(path, scheme)).abi_hash for scheme in SCHEMES]
    hashes += [build(load_graph(path, context=context)).abi_hash for context in (8, 9, 33)]
    hashes += [build(load_graph(path, kv=StateType.F16)).abi_hash]
    assert len(set(hashes)) == len(hashes) == 9


def test_the_abi_hash_changes_with_the_tile() -> None:
    graph = load_graph(ORACLE / "mixtral-base", Scheme.W8A8)
    layouts = plan_layouts(graph, KernelSet(("portable",)))
    before = plan_model_bin(graph, layouts, b"", "").abi_hash
    from dataclasses import replace

    name = "layers.0.q"
    layouts.matrices[name] = replace(layouts.matrices[name], tile_rows=4)
    assert plan_model_bin(graph, layouts, b"", "").abi_hash != before


def test_the_abi_hash_changes_with_the_experts_that_are_kept() -> None:
    def pruned(drops: dict[int, set[int]]) -> bytes:
        graph = load_graph(ORACLE / "mixtral-base")
        drop_experts(graph, drops)
        quantise_graph(graph, Scheme.W8A8)
        return build(graph).abi_hash

    hashes = [pruned(drops) for drops in ({}, {0: {1}}, {1: {1}}, {0: {1}, 1: {1}}, {0: {1, 2}})]
    assert len(set(hashes)) == len(hashes)


def test_a_dropped_expert_leaves_no_bytes(tmp_path: Path) -> None:
    arrays = tiny_mixtral()
    marked = "model.layers.1.block_sparse_moe.experts.2.w2.weight"
    arrays[marked] = np.full_like(arrays[marked], 0.123456)
    write_checkpoint(tmp_path / "m", CONFIG, arrays)
    graph = load_graph(tmp_path / "m")
    pattern = np.full(16, 0.123456, "<f4").tobytes()
    whole = written(graph, tmp_path / "whole")
    drop_experts(graph, {1: {2}})
    pruned = written(graph, tmp_path / "pruned")
    assert pattern in whole and pattern not in pruned
    # three matrices, their table entry, and their router row
    assert len(whole) - len(pruned) == 3 * 16 * 24 * 4 + 32 + 16 * 4


def test_renormalising_sensor_model_has_another_hash(tmp_path: Path) -> None:
    one, two = (
        build(load_graph(write_sensor(tmp_path / str(flag), norm_topk_prob=flag))).abi_hash for flag in (False, True)
    )
    assert one != two
