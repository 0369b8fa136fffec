"""Bytes of code, tables and data before the compiler runs: what is counted, and against what was linked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from shared_objects import SharedObjects
from size_models import EXAMPLES, ORACLE, Case, compiler_of, held_out, mixed
from size_samples import measure
from small_models import write_mixtral, write_sensor

from colibri.boards.load import board_names, load_board
from colibri.boards.profile import Board, Holds
from colibri.emit.c_block import Block, Field
from colibri.emit.c_shapes import Instance
from colibri.emit.module import Module
from colibri.footprint import code_size
from colibri.footprint.attribute import GroupKind
from colibri.footprint.code_size import (
    OTHERS,
    bound,
    choose,
    estimate_code,
    kernel_bytes,
    load_table,
    room_for_kernels,
)
from colibri.footprint.code_traits import constant_bytes, descriptor_bytes, kernels
from colibri.footprint.groups import Group
from colibri.footprint.report import Report, make_report
from colibri.generate import generate, prepare
from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.options import Options
from colibri.package import Within
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import product_targets

# Boards that were measured themselves, and (the last ones) some that take the measurement of another.
BOARDS = [
    "raspberry-pi-zero",
    "riscv-virt-rv32imac",
    "stm32f405",
    "windows-x86-64",
    "kendryte-k210",
    "nrf5340dk",
]
# Of code, for most schemes. Clang's vectoriser unrolls short loops, and others by eights alone; with AArch64's dot
# product and on x86 the kernels of 8-bit weights are guessed worst.
MOST = {
    "graviton-3": 800,
    "jetson-orin": 1000,
    "nrf5340dk": 900,
    "raspberry-pi-5": 1000,
    "riscv-virt-rv32gcv": 900,
    "rk3588": 1000,
    "stm32f405": 800,
    "stm32f746g-disco": 800,
    "stm32h750b-dk": 800,
    "wasm32-simd128": 1300,
    "x86-64-v3": 1900,
    "x86-64-v4": 1600,
    "windows-x86-64": 1000,
    "x86-64-v2": 900,
}
# An example of each kind; ops that the examples have not.
UNSEEN = [
    Case(EXAMPLES / "load-moe/top1-e4", Options()),
    Case(EXAMPLES / "shakespeare-moe", Options(Scheme.W4A8, StateType.F16, prefill=8, context=32)),
    Case(ORACLE / "deepseekv3-base", Options(Scheme.W8A8, prefill=4)),
    Case(ORACLE / "gptoss-base", Options(Scheme.W4A16)),
    Case(
        EXAMPLES / "shakespeare-moe",
        Options(Scheme.W4A8, prefill=8, context=32, drop={0: {1}, 1: {1, 2}, 2: {1, 2, 3}}),
    ),
    Case(EXAMPLES / "shakespeare-moe", mixed("w4a8:experts.down=w8a8:1.attention=w4a16", context=32)),
]


def linked(report: Report, kind: GroupKind) -> Group:
    """The first group of a kind that has a prediction: of code, the one in flash, whole."""
    return next(group for use in report.regions for group in use.groups if group.kind is kind and group.predicted)


def padding_of(report: Report, region: str) -> int:
    """Bytes between the parts of a region; 0 when there is no such region."""
    uses = [use for use in report.regions if use.name == region]
    return sum(group.bytes for use in uses for group in use.groups if group.kind is GroupKind.PADDING)


@pytest.mark.parametrize("board_id", BOARDS)
def test_predictions_are_within_their_bounds(board_id: str, tmp_path: Path) -> None:
    board = load_board(board_id)
    choice = choose(board)
    assert choice is not None
    if compiler_of(board) != choice.measured.compiler:
        pytest.skip(f"the bounds hold for {choice.measured.compiler}, here is {compiler_of(board)}")
    for sample in measure(UNSEEN, board, tmp_path / "package", {}):
        estimate = sample.package.code_estimate
        assert estimate is not None and estimate.within is not None and estimate.board == choice.board
        for group in ("code", "tables", "data"):
            error = getattr(estimate, group) - getattr(sample.bytes, group)
            assert abs(error) <= getattr(estimate.within, group), f"{sample.name}: {group} is off by {error}"


def test_routers_of_all_shapes_are_one_function(tmp_path: Path) -> None:
    board, drop = load_board("stm32f405"), {0: {1, 3}}
    case = Case(EXAMPLES / "shakespeare-moe", Options(Scheme.W4A8, prefill=8, context=32, drop=drop))
    (sample,) = measure([case], board, tmp_path / "package", {})
    sizes = sample.bytes.functions
    routers = [kernel.name for kernel in kernels(sample.module) if kernel.kind == "router"]
    assert len(routers) == 4 and all(sizes[name] < 64 for name in routers) and sizes["colibri_router"] > 256


@pytest.mark.parametrize("board_id", ["nucleo-h743zi", "stm32f405"])
def test_what_is_measured_is_what_the_report_shows(board_id: str, tmp_path: Path, objects: SharedObjects) -> None:
    board, case = load_board(board_id), UNSEEN[0]
    (sample,) = measure([case], board, tmp_path / "measured", {})
    package = generate(case.path, board, case.options, tmp_path / "out")
    objects.lend(tmp_path / "out")
    build(tmp_path / "out", product_targets(board, board.toolchain.family))
    objects.keep(tmp_path / "out")
    report = make_report(tmp_path / "out")
    estimate = package.code_estimate
    assert estimate is not None
    for kind, name in ((GroupKind.CODE, "code"), (GroupKind.TABLES, "tables"), (GroupKind.DATA, "data")):
        group = linked(report, kind)
        # Kernels that start-up copies into ITCM lie in flash with the padding between them.
        between = padding_of(report, "itcm") if kind is GroupKind.CODE else 0
        assert (group.bytes, group.predicted) == (getattr(sample.bytes, name) + between, getattr(estimate, name))


@pytest.mark.parametrize("board_id", load_table())
def test_bounds_are_a_few_hundred_bytes(board_id: str) -> None:
    within = load_table()[board_id].within
    assert set(within) - {OTHERS} == set(map(str, SCHEMES))
    bounds, most = sorted(one.code for one in within.values()), MOST.get(board_id, 700)
    assert bounds[2] <= most and bounds[-1] <= 2 * most
    assert all(one.tables <= 1200 and one.data <= 50 for one in within.values())


@pytest.mark.parametrize("board_id", BOARDS)
def test_schemes_without_bounds_of_their_own_have_the_widest(board_id: str) -> None:
    choice = choose(load_board(board_id))
    assert choice is not None
    others = bound(choice.measured, "w3a8:head=w8a8")
    assert others is not None and others.code == max(one.code for one in choice.measured.within.values())


def test_all_boards_have_bounds() -> None:
    assert {name for name in board_names() if choose(load_board(name)) is None} == {"x86-64"}
    for name in board_names():
        board = load_board(name)
        choice = choose(board)
        if board.levels:
            assert choice is None, "each level has its layers: nothing that was measured holds for all of them"
            continue
        assert choice is not None and choice.own, f"{name}: run ci/code-size --write --board {name}"


def test_the_kernels_of_every_family_are_known(tmp_path: Path) -> None:
    board = load_board("stm32f405")
    for case in held_out():
        contents = prepare(case.path, board, case.options, tmp_path / "out", proven=False)
        estimate, sizes = contents.package.code_estimate, kernel_bytes(contents.module, board)
        assert estimate is not None, case.name
        assert {one.name for one in contents.module.instances} <= set(sizes)
        assert estimate.kernels == sizes and sum(sizes.values()) < estimate.code


def test_a_board_that_is_like_another_has_its_amounts_and_bounds_of_its_own() -> None:
    table = load_table()
    alike = {name: measured for name, measured in table.items() if measured.like}
    assert alike
    for name, measured in alike.items():
        other = table[measured.like]
        assert not other.like and measured.kernel == other.kernel and measured.fixed
        choice = choose(load_board(name))
        assert choice is not None and choice.own and choice.board == measured.like


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
    assert set(linear.traits) == {"each", "bias", "short", "stores"}
    assert set(quantise.traits) == {"each", "rows", "padded", "short", "loops"}
    assert set(router.traits) == {"each", "flag1", "short"}


def test_what_lets_the_compiler_leave_code_out() -> None:
    made = module(
        instance(
            "top1_of_1x4_in_1_of_2",
            "static const uint32_t sizes[2] = {2, 2};",
            "colibri_grouped_router(y, NULL, 1, 1, true, false, true);",
        ),
        instance("quantise8_1x24_in_32_to_127", "colibri_quantise8(y, x, 24, 32, 127.0f);"),
    )
    router, quantise = kernels(made)
    assert router.traits == {"each": 1, "null": 1, "flag1": 1, "flag3": 1, "ones": 2, "short": 1}
    assert quantise.traits == {"each": 1, "padded": 1, "lanes": 1, "short": 1}
    assert constant_bytes(made) == 2 * 4


def test_loops_of_several_inputs_and_stores_are_counted() -> None:
    def linear(rows: int) -> Instance:
        return instance(
            f"linear_w8a8_{rows}x16x64",
            "for (int n = 0; n < 16; n += 16) {",
            f"for (uint32_t i = 0; i < {rows}; i += 4) {{",
            "colibri_dot_w8a8_inputs(sum, w, inputs + i, facts[i / 4], 64);",
            "colibri_store_scaled(y, sum, NULL, 16);",
            "}}",
        )

    eight, twelve = kernels(module(linear(8), linear(12)))
    assert eight.traits == {"each": 1, "once": 1, "null": 1, "lanes": 1, "twice": 1, "loops": 2, "stores": 1}
    assert twelve.traits == {name: one for name, one in eight.traits.items() if name != "twice"}


def test_equal_kernels_are_one_to_the_compiler() -> None:
    made = module(
        *(instance(f"add_{n}", "colibri_add(x, y, 8);") for n in (8, 9)), instance("add_1", "colibri_add(x);")
    )
    assert [(one.twin, one.alone) for one in kernels(made)] == [("", False), ("add_8", False), ("", False)]


def test_equal_kernels_are_two_where_the_compiler_keeps_both(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_board("stm32f405")
    known = msgspec.structs.replace(load_table()[board.id], kernel={"add": {"each": 40.0}})
    made = module(*(instance(f"add_{n}", "colibri_add(x, y, 8);") for n in (8, 9)))
    for folds, second in ((1, 0), (0, 40)):
        table = {board.id: msgspec.structs.replace(known, folds=folds)}
        monkeypatch.setattr(code_size, "load_table", lambda table=table: table)
        assert kernel_bytes(made, board) == {"add_8": 40, "add_9": second}


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
        Block("input", [], members=plain, rows_of=[{}]),
        Block("layer", [], members=plain, rows_of=[{}, {}, {}]),
        Block("layer_2", [], members=array, rows_of=[{}]),
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
    assert choose(other(board, cpu=replace_arch(board, "mips"))) is None
    assert choose(other(board, kernels=("fast", "portable"))) is None
    made = prepare(write_mixtral(tmp_path / "lm"), board, Options(context=8), tmp_path / "out")
    strange = replace(made.module, instances=[*made.module.instances, instance("new_1", "colibri_new(x);")])
    assert estimate_code(made.module, made.package) is not None
    assert estimate_code(strange, made.package) is None
    assert "new_1" not in kernel_bytes(strange, board)
    sizes, spare = room_for_kernels(strange, board)
    assert sizes["new_1"] == 768 and sizes.items() >= kernel_bytes(strange, board).items()
    assert spare == max(one.code for one in load_table()["stm32f405"].within.values()) > 0
    assert room_for_kernels(strange, other(board, kernels=("fast", "portable"))) == (
        {one.name: 768 for one in strange.instances},
        0,
    )


def replace_arch(board: Board, arch: str) -> object:
    return msgspec.structs.replace(board.cpu, arch=arch)


def test_a_dot_kernel_of_several_codings_has_traits_for_them(tmp_path: Path) -> None:
    options = Options(Scheme.parse("w3g64za8+o5"), context=16)
    module = prepare(ORACLE / "mixtral-base", load_board("stm32f405"), options, tmp_path / "p", proven=False).module
    dots = [kernel for kernel in kernels(module) if kernel.kind.startswith("dot_planes")]
    assert dots and {kernel.runtime for kernel in dots} <= {"colibri_dot_planes_a8", "colibri_dot_planes_a16"}
    assert all({"bits3", "zero", "outliers"} <= set(kernel.traits) for kernel in dots)
    plain = prepare(
        ORACLE / "mixtral-base", load_board("stm32f405"), Options(Scheme.W4A8), tmp_path / "q", proven=False
    )
    assert not any({"zero", "outliers", "bits4"} & set(kernel.traits) for kernel in kernels(plain.module))
