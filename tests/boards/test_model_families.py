"""Every family of checkpoint on an x86, a Linux Arm and a Cortex-M: the bits of the reference, in some scheme.

Some have rules for classes, layers and slots, so that one model has many formats.

What a family may have besides runs on the x86 alone: the C of it is the same for all.
"""

import pytest
from board_packages import ORACLE, Make

from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.recipe import parse_recipe
from colibri.testing import check_package

F16, I8 = StateType.F16, StateType.I8
BOARDS = ("x86-64-v3", "raspberry-pi-5", "stm32f405")
MODELS = {
    "deepseekv2-lite": parse_recipe("w6a16+o5:shared=w3a8:experts.up=w5g64za16:router=f16:prefill=3:context=24"),
    "deepseekv3-base": parse_recipe(
        "w4a8:router=w8a8:attention=w8a16:2.attention.q=f32:shared=w4a16:1.experts=f32:head=f32:kv=int8:context=24"
    ),
    "gptoss-base": Options(Scheme.W8A8, I8, prefill=3, context=24),
    "variants/gptoss-mxfp4": Options(Scheme.W4A8, prefill=3, context=24),
    "phimoe-base": parse_recipe(
        "w4a8:router=w8a16:experts.down=w8a16:0.attention=f32:head=w8a8:kv=f16:prefill=4:context=24"
    ),
    "granitemoe-base": parse_recipe("w5a8:experts=w2g64a16+o10:head=w3g128a8+o2:prefill=4:context=24"),
    "llama-llama3rope-tied": Options(Scheme.W4A8, prefill=3, context=24),
    "llama4-top1": Options(Scheme.W8A8, I8, prefill=3, context=40),
    "mixtral-base": parse_recipe(
        "w4a8:embedding=w3a8:experts=w3g64za8:experts.down=w4a8+o5:1.experts=w2a16+o10:1.experts.down=f16:attention=w5a8:"
        "0.attention.v=w6a16:0.attention.o=f16:head=f16:router=f16:0.router=w4za16:prefill=3:context=24"
    ),
    "mixtral-fused-disk": parse_recipe("w4a8+o5:head=w4g64za8:0.experts=w4a16+o20:embedding=f16:context=24"),
    # longer than its window of 16
    "mixtral-sharded-swa": parse_recipe("w3za16+o10:attention=w4a16:head=w6a8:kv=int8:prefill=4:context=40"),
    "olmoe-base": parse_recipe("w2za8:attention=w6g128za16:embedding=w2g64za8+o3:router=w5a16:context=24"),
    "qwen2-swa": parse_recipe("f16:kv=f16:context=24"),
    "qwen2moe-base": parse_recipe(
        "f32:experts=w4a8:2.experts=w8a8:shared.down=w8a8:router.scale=w8a16:prefill=4:context=24"
    ),
    "qwen3moe-base": Options(Scheme.W8A8, F16, prefill=2, context=24),
    "switch-base": Options(Scheme.W8A8, I8, prefill=3, context=20, source=24),
}
VARIANTS = {
    "gptoss-mxfp4-wide-top1": Options(Scheme.W4A16, F16, context=24),
    "deepseekv3-no-shared-experts": Options(Scheme.F32, context=24),  # heads turn one pair: gcc 12.2 fused its products
    "phimoe-tied-head-bias": Options(Scheme.W4A8, prefill=3, context=24),
    "deepseekv2-groups-q-rank": Options(Scheme.W8A16, F16, context=24),
    "llama4-biases-temperature": Options(Scheme.F32, F16, prefill=2, context=24),
    "olmoe-clip": Options(Scheme.F32, context=24),
    "switch-wide-heads-all-sparse": Options(Scheme.W4A8, F16, prefill=4, context=24),
}


@pytest.mark.emulator
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_family_has_its_bits(model: str, board: str, make: Make) -> None:
    has_its_bits(model, board, MODELS[model], make)


@pytest.mark.emulator
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_has_its_bits(variant: str, make: Make) -> None:
    has_its_bits(f"variants/{variant}", BOARDS[0], VARIANTS[variant], make)


@pytest.mark.emulator
@pytest.mark.parametrize("board", ["riscv-virt-rv32imac", "raspberry-pi-pico", "mps3-an547"])
def test_int8_states_on_other_cores(board: str, make: Make) -> None:
    has_its_bits("mixtral-sharded-swa", board, MODELS["mixtral-sharded-swa"], make)


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("model", "board", "options"),
    [
        ("phimoe-base", "x86-64-v2", MODELS["phimoe-base"]),
        ("mixtral-base", "stm32f405", parse_recipe("w4g128a8:context=24")),
    ],
)
def test_no_call_of_a_kernel_is_left_out(model: str, board: str, options: Options, make: Make) -> None:
    """gcc 12.2 left out calls of these programs: it took kernels for functions without effect."""
    has_its_bits(model, board, options, make)


@pytest.mark.emulator
@pytest.mark.parametrize("layer", [0, 1])
def test_experts_of_one_layer_take_all_rows_together_and_those_of_the_other_do_not(layer: int, make: Make) -> None:
    """They have one scratch."""
    options = parse_recipe(f"w4a8:{layer}.experts=w2a16:prefill=8:context=24")
    has_its_bits("mixtral-base", "x86-64-v3", options, make)


def has_its_bits(model: str, board: str, options: Options, make: Make) -> None:
    folder, package = make(ORACLE / model, board, options)
    results = check_package(folder, check_memory=True, instructions=False)
    assert {result.emulator for result in results} == {emulator.name for emulator in package.board.emulators}
    assert all(result.mismatches == () and result.outputs > 1000 for result in results)
    assert len({result.digest for result in results}) == 1
