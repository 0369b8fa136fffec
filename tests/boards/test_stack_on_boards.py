"""The stack on every processor: the bound holds, is not far above what runs show, and is what is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make
from msgspec.structs import replace
from report_checks import check_entry
from selection import COMPILERS, OFTEN, TELLING, boards_with_models, of_kind, skip_where_nothing_runs, with_elf

from colibri.boards.load import load_board
from colibri.boards.profile import BoardKind, CompilerFamily
from colibri.called import observable, shows_all_accesses
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit
from colibri.footprint.observed import with_observed
from colibri.footprint.report import make_report
from colibri.footprint.stack import Observed, ObservedBlock, ObservedEntry, open_tree, stack_use
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.observe import observe
from colibri.options import Options
from colibri.package import Package, load_package
from colibri.reserve import fit_stack
from colibri.testing import check_package
from colibri.toolchain.build import build

# Only gcc says what frames its functions have.
OF_GCC = [name for name in COMPILERS if load_board(name).toolchain.family is CompilerFamily.GCC]
# What assembler code inside a function pushes, only the machine code tells.
PUSHED_BY_ASSEMBLER = {"armv6m colibri_dot_w8a8": 8, "rv32im colibri_rows_w4a8": 64}
BARE = boards_with_models(of_kind(BoardKind.BARE, OF_GCC), of_kind(BoardKind.BARE, OFTEN))
# Without an emulator that shows stores.
PAINTED = ["wasm32", "wasm32-simd128", "windows-x86-64", "x86-64-v4"]
LINUX = boards_with_models(of_kind(BoardKind.LINUX, TELLING), of_kind(BoardKind.LINUX, OFTEN))
MODELS = {
    "sensor": ("load-moe/top1-e4", Options()),
    # As deep in few positions as in many.
    "language": ("shakespeare-moe", Options(Scheme.W4A8, StateType.F16, prefill=4, context=12, drop=PRUNED)),
}
CALLED = {
    "sensor": ["colibri_verify", "P_init", "colibri_check", "P_used_bytes", "P_forward"],
    "language": [
        "colibri_verify", "P_init", "colibri_check", "P_used_bytes", "P_prefill", "P_step", "P_reset", "P_position",
    ],
}  # fmt: skip


def made(model: str, board: str, make: Make) -> tuple[Path, Package]:
    checkpoint, options = MODELS[model]
    return make(EXAMPLES / checkpoint, board, options)


def require(board: str, entry: ObservedEntry) -> None:
    print(f"{board:<44} {entry.name:<28} {entry.bound:>6} {entry.observed:>6}")
    check_entry(entry)


def require_calls(board: str, entries: Sequence[ObservedEntry]) -> None:
    """Step is a prefill of one token, so that its bound holds calls of several, which only prefill itself makes."""
    prefill = next((entry for entry in entries if entry.name.endswith("_prefill")), None)
    for entry in entries:
        if prefill and entry.name.endswith("_step"):
            assert entry.bound and entry.observed and entry.observed <= entry.bound and prefill.bound
            further = entry.bound - prefill.bound
            assert 0 <= further <= entry.observed
            entry = replace(entry, observed=max(entry.observed, further + (prefill.observed or 0)))
        require(board, entry)


@pytest.mark.emulator
@boards_with_models([*of_kind(BoardKind.BARE, COMPILERS), *of_kind(BoardKind.LINUX, TELLING)], with_elf(OFTEN))
def test_the_bound_holds_and_is_tight(board: str, model: str, make: Make) -> None:
    skip_where_nothing_runs(board)
    folder, package = made(model, board, make)
    runs = observe(folder)
    emulators = [emulator for emulator in package.board.emulators if observable(package.board, emulator)]
    assert [run.emulator for run in runs] == [emulator.name for emulator in emulators]
    # What a painted stack shows, where there is one, is what the plugin sees.
    assert all(run.entries == runs[0].entries for run in runs)
    if package.board.kind is BoardKind.LINUX:  # elsewhere programs start in ways of their own
        assert len({run.program.observed for run in runs}) == 1
    for run in (run for run, emulator in zip(runs, emulators, strict=True) if emulator.kind.is_qemu):
        assert [entry.name.replace(package.prefix, "P") for entry in run.entries] == CALLED[model]
        require_calls(f"{board} on {run.emulator}", run.entries)
        if not package.board.cpu.arch.startswith(
            "riscv"
        ):  # a frame there is a multiple of 16, and what fills it up lies lowest
            check = next(entry for entry in run.entries if entry.name == "colibri_check")
            assert check.observed == check.bound  # neither is off by what a call pushes
        if package.board.kind is BoardKind.BARE:
            require(f"{board} on {run.emulator}", run.program)
        else:  # the C library reads and writes for it
            assert run.program.bound is None
            assert (run.program.observed or 0) > max(entry.observed or 0 for entry in run.entries)
        # The last bytes of a block may be alignment that nobody writes.
        assert [seen.region for seen in run.memory] == [block.region for block in package.memory.blocks]
        for seen, block in zip(run.memory, package.memory.blocks, strict=True):
            assert block.total - 16 < seen.high_water <= block.total
            assert 0 <= seen.pages - block.total // 4096 <= 2
            assert seen.pages <= seen.of_pages <= seen.pages + 1
        if not shows_all_accesses(package.board):
            assert run.weights is None
            continue
        assert run.weights is not None
        assert run.weights.of_pages - package.model_bin_bytes // 4096 in (1, 2)
        # The last page may hold nothing but the manifest.
        least = min(0.9 * run.weights.of_pages, run.weights.of_pages - 1)
        assert least <= run.weights.pages <= run.weights.of_pages


@pytest.mark.emulator
@boards_with_models(PAINTED, PAINTED)
def test_a_painted_stack_shows_what_no_plugin_sees(board: str, model: str, make: Make) -> None:
    skip_where_nothing_runs(board)
    folder, package = made(model, board, make)
    for run in observe(folder):
        assert [entry.name.replace(package.prefix, "P") for entry in run.entries] == CALLED[model]
        require_calls(f"{board} on {run.emulator}", run.entries)
        if package.board.kind is BoardKind.WASM:
            require(f"{board} on {run.emulator}", run.program)
        else:
            assert all(entry.bound for entry in run.entries)  # the return address at least
            assert run.entries[2].observed == run.entries[2].bound  # of colibri_check: not off by what a call pushes
        assert (run.memory, run.weights) == ((), None)


@BARE
def test_the_machine_code_has_the_frames_that_the_compiler_says(board: str, model: str, make: Make) -> None:
    folder, package = made(model, board, make)
    build(folder)
    tree = open_tree(folder, package, folder / "build/test.elf")
    pending, seen = [tree.address("port_start")], set[int]()
    compared = 0
    while pending:
        address = pending.pop()
        if address is None or address in seen:
            continue
        seen.add(address)
        function = tree.function(address)
        pending += [call.target for call in function.calls]
        if function.compiler is not None:
            compared += 1
            said = function.compiler.bytes + PUSHED_BY_ASSEMBLER.get(f"{package.board.kernels[0]} {function.name}", 0)
            assert (function.name, function.machine.depth, function.bytes) == (function.name, said, said)
    assert compared > 25


@LINUX
def test_the_model_is_bounded_under_linux(board: str, model: str, make: Make) -> None:
    folder, package = made(model, board, make)
    build(folder)
    use = stack_use(folder, package, folder / "build/test.elf")
    assert {entry.name.replace(package.prefix, "P") for entry in use.entries} >= set(CALLED[model])
    assert [(entry.name, entry.unknown) for entry in use.entries if entry.bytes is None] == []
    assert use.program.bytes is None
    assert (use.reserve, use.needed, use.short) == (0, None, 0)


@pytest.mark.parametrize("board", of_kind(BoardKind.LINUX, TELLING))
def test_the_stack_of_the_test_program_is_not_in_the_product(board: str, make: Make) -> None:
    folder, _ = made("sensor", board, make)
    build(folder)
    stack = {"port_stack", "port_stack_limit", "port_stack_top", "port_call_at", "port_on_stack"}
    assert stack & set(Symbols.of(folder / "build/test.elf").values) == stack
    assert stack & set(Symbols.of(folder / "build/product.elf").values) == set()


@pytest.mark.emulator
@BARE
def test_the_fitted_reserve_is_what_the_bound_needs(board: str, model: str, make: Make) -> None:
    folder, _ = made(model, board, make)
    build(folder)
    use = fit_stack(folder)
    build(folder)
    report = make_report(folder)
    assert use is not None
    assert report.stack is not None
    assert report.stack.reserve == use.needed == load_package(folder).board.stack
    assert (report.stack.short, report.stack.overflows, use.reserve > report.stack.reserve) == (0, False, True)
    test = stack_use(folder, load_package(folder), folder / "build/test.elf")
    assert test.program.bytes is not None
    assert test.program.bytes + test.exception <= report.stack.reserve
    assert all(result.passed for result in check_package(folder, check_memory=True))
    before = (folder / "build/product.elf").read_bytes()
    fit_stack(folder)
    build(folder)
    assert (folder / "build/product.elf").read_bytes() == before


def test_a_reserve_below_the_bound_does_not_pass(make: Make) -> None:
    folder, _ = made("sensor", "stm32f405", make)
    script = folder / "port/board.ld"
    text = script.read_text()
    assert text.count(". += 4096;") == 1
    script.write_text(text.replace(". += 4096;", ". += 192;"))
    build(folder)
    report = make_report(folder)
    assert report.stack is not None
    assert (report.stack.reserve, report.stack.overflows) == (192, True)
    with pytest.raises(DoesNotFit, match="the stack can take"):
        report.require_fit()


def test_observed_figures_stand_in_their_rows(make: Make) -> None:
    folder, package = made("sensor", "nucleo-h743zi", make)
    build(folder, ["build/product.elf"])
    runs = [
        Observed("one", ObservedEntry("port_start", 240, 200), (), (ObservedBlock("dtcm", 300, 1, 1),)),
        Observed("two", ObservedEntry("port_start", 240, 236), (), (ObservedBlock("dtcm", 280, 1, 1),)),
    ]
    report = with_observed(make_report(folder), runs, package)
    figures = {group.kind.value: group.observed for region in report.regions for group in region.groups}
    assert (figures["stack"], figures["context"], figures["arena"], figures["code"]) == (236, 64, 236, None)
