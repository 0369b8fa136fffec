"""Bytes of code, tables and data before the compiler runs: what is counted, and against what was linked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from shared_objects import SharedObjects
from size_models import EXAMPLES, PRUNED, compiler_of, held_out
from small_models import write_mixtral, write_sensor

from colibri.boards.load import load_board
from colibri.boards.profile import Board, Holds
from colibri.emit.c_module import Block, Field, Instance
from colibri.emit.module import Module
from colibri.footprint import code_size
from colibri.footprint.attribute import GroupKind
from colibri.footprint.code_size import choose, estimate_code, kernel_bytes, load_table
from colibri.footprint.code_traits import descriptor_bytes, kernels
from colibri.footprint.report import Report, make_report
from colibri.generate import Options, generate, prepare
from colibri.graph.graph import StateType
from colibri.package import Within
from colibri.passes.quantise import Scheme
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import product_targets

BOARDS = ["aarch64-sve2", "nucleo-h743zi", "raspberry-pi-5", "riscv-virt-rv32imac", "stm32f405", "x86-64-v3"]
DEMOS = {
    "load-moe/top1-e4": Options(),
    "load-moe/top2-e4-norm": Options(Scheme.W4A8, batch=4),
    "shakespeare-moe": Options(Scheme.W4A8, StateType.F16, prefill=8, context=32, drop=PRUNED),
}


def linked(report: Report, kind: GroupKind) -> int:
    """Bytes of the first group of a kind that has a prediction: of code, the one in flash, whole."""
    groups = (group for use in report.regions for group in use.groups if group.kind is kind and group.predicted)
    return next(groups).bytes


@pytest.mark.parametrize("demo", DEMOS)
@pytest.mark.parametrize("board_id", BOARDS)
def test_predictions_are_within_their_bounds(board_id: str, demo: str, tmp_path: Path, objects: SharedObjects) -> None:
    board = load_board(board_id)
    package = generate(EXAMPLES / demo, board, DEMOS[demo], tmp_path / "out")
    estimate = package.code_estimate
    assert estimate is not None and estimate.within is not None and estimate.board == board_id
    if compiler_of(board) != estimate.compiler:
        pytest.skip(f"the bounds hold for {estimate.compiler}, here is {compiler_of(board)}")
    objects.lend(tmp_path / "out")
    build(tmp_path / "out", product_targets(board, board.toolchain.family))
    objects.keep(tmp_path / "out")
    report = make_report(tmp_path / "out")
    assert abs(estimate.code - linked(report, GroupKind.CODE)) <= estimate.within.code
    assert abs(estimate.tables - linked(report, GroupKind.TABLES)) <= estimate.within.tables
    assert abs(estimate.data - linked(report, GroupKind.DATA)) <= estimate.within.data


@pytest.mark.parametrize("board_id", BOARDS)
def test_bounds_are_a_few_hundred_bytes(board_id: str) -> None:
    within = load_table()[board_id].within
    assert set(within) == set(Scheme)
    assert sorted(one.code for one in within.values())[-2] <= 600 and max(one.code for one in within.values()) <= 2000
    assert all(one.tables <= 450 and one.data <= 50 for one in within.values())


def test_each_board_knows_every_kernel_of_the_examples(tmp_path: Path) -> None:
    for board_id in BOARDS:
        board = load_board(board_id)
        cases = [case for case in held_out() if case.options.batch or case.path.name == "mixtral-base"]
        for case in cases:
            contents = prepare(case.path, board, case.options, tmp_path / "out")
            assert contents.package.code_estimate is not None
            sizes = kernel_bytes(contents.module, board)
            assert {one.name for one in contents.module.instances} <= set(sizes)
            assert contents.package.code_estimate.kernels == sizes
            assert sum(sizes.values()) < contents.package.code_estimate.code


# ---- what is counted ----


def instance(name: str, *body: str) -> Instance:
    return Instance(name, "", "float *x", body)


def module(*instances: Instance, blocks: tuple[Block, ...] = ()) -> Module:
    return Module([], list(instances), list(blocks), [], [], (1,))


def test_kernels_are_of_the_kind_of_their_runtime_function() -> None:
    made = module(
        instance("linear_f32_1x8x4_bias", "colibri_dot_f32(sum, colibri_floats(w) + n, x, 4);", "colibri_store(y);"),
        instance("silu_times_12", "up[i] = colibri_silu(gate[i]) * up[i];"),
        instance("quantise8_3x6_in_32_to_127", "for (uint32_t row = 0; row < 3; row++) {", "colibri_quantise8(y);"),
        instance("top3_of_1x5", "colibri_router(index, weight, scores, 5, 3, true);"),
    )
    linear, silu, quantise, router = kernels(made)
    assert [one.kind for one in (linear, silu, quantise, router)] == ["dot_f32", "silu_times", "quantise8", "router"]
    assert silu.runtime == "colibri_silu" and all(one.alone for one in kernels(made))
    assert set(linear.traits) == {"each", "bias", "short"}
    assert set(quantise.traits) == {"each", "rows", "padded", "short"}
    assert set(router.traits) == {"each", "several", "renormalised", "short"}


def test_equal_kernels_are_one_to_the_compiler() -> None:
    made = module(
        *(instance(f"add_{n}", "colibri_add(x, y, 8);") for n in (8, 9)), instance("add_1", "colibri_add(x);")
    )
    assert [(one.twin, one.alone) for one in kernels(made)] == [("", False), ("add_8", False), ("", False)]


def test_kernels_that_share_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("stm32f405")
    measured = msgspec.structs.replace(
        load_table()[board.id],
        kernel={"rope": {"each": 100.0}},
        shared={"rope": {"each": 90.0}},
        wrapper={"rope": {"each": 6.0, "rows": 20.0}},
    )
    monkeypatch.setattr(code_size, "load_table", lambda: {board.id: measured})
    one = instance("rope_1x2x8", "colibri_rope(x);")
    rows = instance("rope_4x2x8", "for (uint32_t row = 0; row < 4; row++) {", "colibri_rope(x + row * 16);", "}")
    assert kernel_bytes(module(one), board) == {"rope_1x2x8": 100}
    assert kernel_bytes(module(one, rows), board) == {"rope_1x2x8": 6, "rope_4x2x8": 26, "colibri_rope": 90}


def test_a_kernel_that_is_never_inlined_is_a_function_even_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("stm32f405")
    measured = msgspec.structs.replace(
        load_table()[board.id], kernel={}, shared={"rope": {"each": 90.0}}, wrapper={"rope": {"each": 6.0}}
    )
    monkeypatch.setattr(code_size, "load_table", lambda: {board.id: measured})
    assert kernel_bytes(module(instance("rope_1x2x8", "colibri_rope(x);")), board) == {
        "rope_1x2x8": 6,
        "colibri_rope": 90,
    }


def test_tables_of_one_row_without_array_become_code() -> None:
    plain, array = {"a": Field("a", ""), "b": Field("b", "")}, {"a": Field("a", ""), "e": Field("e", "", 3)}
    blocks = (
        Block("input", [], plain, [{}]),
        Block("layer", [], plain, [{}, {}, {}]),
        Block("layer_2", [], array, [{}]),
    )
    assert descriptor_bytes(module(blocks=blocks)) == 3 * 8 + 16


# ---- boards that were not measured ----


def other(board: Board, **changes: object) -> Board:
    return msgspec.structs.replace(board, id="mine", **changes)


def test_a_board_of_ones_own_with_the_same_processor_takes_its_measurement(tmp_path: Path) -> None:
    cortex_m4 = load_board("stm32f405")
    flags = ("-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
    mine = other(cortex_m4, toolchain=msgspec.structs.replace(cortex_m4.toolchain, flags=flags))
    choice = choose(mine)
    assert choice is not None and choice.board == "stm32f405" and choice.own
    source = write_sensor(tmp_path / "sensor")
    package = generate(source, mine, Options(), tmp_path / "out")
    known = generate(source, cortex_m4, Options(), tmp_path / "known").code_estimate
    assert package.code_estimate is not None and known is not None and isinstance(known.within, Within)
    assert package.code_estimate == known


def test_no_bounds_where_the_memory_needs_other_code() -> None:
    board = load_board("stm32f405")
    *others, ccm = board.memory
    fast = msgspec.structs.replace(ccm, holds=(Holds.KERNELS,))
    choice = choose(other(board, memory=(*others, fast)))
    assert choice is not None and choice.board == "stm32f405" and not choice.own


def test_a_measured_board_with_other_flags_has_no_bound() -> None:
    board = load_board("nucleo-h743zi")
    flags = (*board.toolchain.flags, "-mno-unaligned-access")
    changed = msgspec.structs.replace(board, toolchain=msgspec.structs.replace(board.toolchain, flags=flags))
    choice = choose(changed)
    assert choice is not None and choice.board == board.id and not choice.own


def test_no_prediction_for_what_was_never_measured(tmp_path: Path) -> None:
    board = load_board("stm32f405")
    assert choose(other(board, cpu=replace_arch(board, "riscv64"))) is None
    assert choose(other(board, kernels=("fast", "portable"))) is None
    made = prepare(write_mixtral(tmp_path / "lm"), board, Options(context=8), tmp_path / "out")
    strange = replace(made.module, instances=[*made.module.instances, instance("new_1", "colibri_new(x);")])
    assert estimate_code(made.module, made.package) is not None
    assert estimate_code(strange, made.package) is None
    assert "new_1" not in kernel_bytes(strange, board)


def replace_arch(board: Board, arch: str) -> object:
    return msgspec.structs.replace(board.cpu, arch=arch)
