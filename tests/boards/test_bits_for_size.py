"""Code for size: the bits of the reference, from fewer bytes of code; the stack stays below its bound."""

from dataclasses import replace
from pathlib import Path

import pytest
from board_packages import EXAMPLES, ORACLE, PRUNED, Make
from test_model_families import MODELS, VARIANTS

from colibri.footprint.attribute import GroupKind
from colibri.footprint.report import make_report
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.testing import check_package
from colibri.toolchain.build import build

BOARDS = (
    "stm32f405",
    "nucleo-h743zi",
    "raspberry-pi-pico",
    "riscv-virt-rv32imac",
    "raspberry-pi-4",
    "x86-64-v3",
    "wasm32-simd128",
)
SENSOR = EXAMPLES / "load-moe/top1-e4"
LANGUAGE = EXAMPLES / "shakespeare-moe"


@pytest.mark.emulator
@pytest.mark.parametrize("board", [*BOARDS, "microbit", "mps3-an547"])
def test_a_sensor_model_has_its_bits(board: str, make: Make) -> None:
    has_its_bits(SENSOR, board, Options(Scheme.W8A8, batch=3), make)


@pytest.mark.emulator
@pytest.mark.parametrize("board", BOARDS)
def test_a_language_model_has_its_bits(board: str, make: Make) -> None:
    has_its_bits(LANGUAGE, board, Options(Scheme.W4A8, StateType.F16, prefill=4, context=32, drop=PRUNED), make)


@pytest.mark.emulator
@pytest.mark.parametrize("model", MODELS)
def test_a_family_has_its_bits(model: str, make: Make) -> None:
    has_its_bits(ORACLE / model, "x86-64-v3", MODELS[model], make)


@pytest.mark.emulator
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_has_its_bits(variant: str, make: Make) -> None:
    has_its_bits(ORACLE / "variants" / variant, "x86-64-v3", VARIANTS[variant], make)


def has_its_bits(checkpoint: Path, board: str, options: Options, make: Make) -> None:
    folder, package = make(checkpoint, board, replace(options, optimise=Optimise.SIZE))
    results = check_package(folder, check_memory=True, instructions=False)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    assert all(result.mismatches == () and result.outputs > 200 for result in results)
    assert len({result.digest for result in results}) == 1


@pytest.mark.parametrize("board", ["stm32f405", "riscv-virt-rv32imac"])
def test_it_takes_less_code_and_has_a_bound_of_the_stack(board: str, make: Make) -> None:
    sizes = {}
    for optimise in Optimise:
        options = Options(Scheme.W4A8, prefill=4, context=32, drop=PRUNED, optimise=optimise)
        folder, _ = make(LANGUAGE, board, options, str(optimise))
        build(folder)
        report = make_report(folder)
        assert report.optimise == optimise
        assert report.stack is not None and report.stack.program.bytes is not None, report.stack
        groups = [group for region in report.regions for group in region.groups]
        sizes[optimise] = sum(group.bytes for group in groups if group.kind is GroupKind.CODE)
    assert sizes[Optimise.SIZE] < 0.8 * sizes[Optimise.SPEED]
