"""A board with several sets of instructions: each runs where the processor has it, all to the same bits."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from board_packages import EXAMPLES, ORACLE, Make

from colibri.boards.load import load_board
from colibri.boards.profile import Board, EmulatorKind
from colibri.cli import main
from colibri.errors import BadInput
from colibri.footprint.attribute import GroupKind
from colibri.footprint.code_size import expected_code
from colibri.footprint.report import make_report
from colibri.generate import generate, prepare
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.testing import EmulatorResult, check_package
from colibri.toolchain.build import build

MODEL = EXAMPLES / "load-moe/top2-e4-norm"
W8A8 = Options(scheme=Scheme.W8A8)
BOARD = load_board("x86-64")
HASWELL = next(one for one in BOARD.emulators if one.name == "qemu-haswell")
# Parts of v3, as QEMU calls them (abm has LZCNT): without any of them the processor is one of v2.
PARTS = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
ARITHMETIC = r"""
#include "colibri.h"
#include <stdio.h>

int main(void)
{
    printf("%d\n", colibri_check_arithmetic());
    return 0;
}
"""


def seen(folder: Path) -> dict[str, EmulatorResult]:
    """By emulator; every bit was right."""
    found = {one.emulator: one for one in check_package(folder, instructions=True)}
    assert all(one.mismatches == () and one.outputs > 0 for one in found.values())
    assert len({one.digest for one in found.values()}) == 1
    return found


def per_call(result: EmulatorResult) -> float:
    assert result.instructions is not None
    return result.instructions.per_call


@pytest.mark.emulator
def test_each_level_takes_what_its_own_board_takes(make: Make) -> None:
    """Instructions of a call, to a hundredth: so the right layers ran."""
    several = seen(make(MODEL, "x86-64", W8A8)[0])
    assert set(several) == {"native", "qemu-haswell", "qemu-nehalem"}
    for emulator, board in (("qemu-haswell", "x86-64-v3"), ("qemu-nehalem", "x86-64-v2")):
        alone = seen(make(MODEL, board, W8A8)[0])["qemu-x86_64"]
        assert per_call(several[emulator]) == pytest.approx(per_call(alone), rel=0.01)
        assert several[emulator].digest == alone.digest
    assert per_call(several["qemu-haswell"]) < 0.7 * per_call(several["qemu-nehalem"])


@pytest.mark.emulator
def test_a_processor_that_lacks_a_part_of_a_level_runs_the_one_below(tmp_path: Path) -> None:
    without = tuple(
        msgspec.structs.replace(HASWELL, name=f"no-{part}", args=("-cpu", f"{HASWELL.args[1]},-{part}"))
        for part in PARTS
    )
    board = msgspec.structs.replace(BOARD, emulators=(HASWELL, *without))
    generate(MODEL, board, W8A8, tmp_path / "p")
    results = seen(tmp_path / "p")
    whole = per_call(results.pop("qemu-haswell"))
    assert len({per_call(one) for one in results.values()}) == 1
    assert {name for name, one in results.items() if per_call(one) > 1.3 * whole} == {f"no-{part}" for part in PARTS}


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("model", "scheme"), [("gptoss-base", "w4a8"), ("mixtral-base", "w3a16"), ("switch-base", "f16")]
)
def test_language_models(model: str, scheme: str, make: Make) -> None:
    """With prefill and an encoder, which are functions of their own."""
    source = {"source": 24} if model == "switch-base" else {}
    options = Options(scheme=Scheme.parse(scheme), prefill=8, context=32, **source)
    results = seen(make(ORACLE / model, "x86-64", options)[0])
    assert per_call(results["qemu-haswell"]) < per_call(results["qemu-nehalem"])


def test_the_report_bounds_the_deepest_level_and_predicts_no_code(make: Make) -> None:
    folder, package = make(MODEL, "x86-64", W8A8)
    assert build(folder)
    assert package.code_estimate is None
    report = make_report(folder)
    entry = next(one for one in report.stack.entries if one.name.endswith("_forward"))
    called = {name: one for name in ("base", "v3") if (one := layers_frame(folder, name))}
    assert set(called) == {"base", "v3"} and entry.bytes is not None
    assert entry.bytes > max(called.values())


def test_a_plan_takes_rather_too_much_for_its_code(make: Make, tmp_path: Path) -> None:
    """No board like it was measured; a C library is in the program, and the layers twice."""
    folder, _ = make(MODEL, "x86-64", W8A8)
    assert build(folder)
    groups = [group for region in make_report(folder).regions for group in region.groups]
    linked = sum(group.bytes for group in groups if group.kind in (GroupKind.CODE, GroupKind.TABLES))
    planned = prepare(MODEL, BOARD, W8A8, tmp_path / "planned", proven=False)
    assert linked < expected_code(planned.module, planned.package) < 1.5 * linked


def layers_frame(folder: Path, level: str) -> int:
    """Bytes of the frame of a level's outermost function, as gcc says."""
    text = (folder / f"build/library/src/layers_{level}.ci").read_text()
    found = re.search(rf"_layers_1_{level}\\n.*?\\n(\d+) bytes", text)
    return int(found[1]) if found else 0


def test_only_the_layers_are_there_several_times(tmp_path: Path) -> None:
    generate(MODEL, BOARD, W8A8, tmp_path / "p")
    own = sorted(path.name for path in (tmp_path / "p/src").iterdir())
    assert own == ["layers.h", "layers_base.c", "layers_v3.c", "model.c", "model_bin.S"]
    base, better = ((tmp_path / f"p/src/layers_{name}.c").read_text() for name in ("base", "v3"))
    assert "avx2" not in base and '"kernels/avx2/dot_w8a8.h"' in better and "sse41" not in better
    assert 'target("arch=x86-64-v3")' in better and "pragma" not in base


@pytest.mark.emulator
@pytest.mark.parametrize(("contract", "haswell"), [("fast", 1), ("off", 0)])
def test_sums_fused_in_the_better_layers_alone_are_found(contract: str, haswell: int, tmp_path: Path) -> None:
    """The base has no instruction for them, so that what is compiled for it cannot tell."""
    generate(MODEL, BOARD, W8A8, tmp_path / "p")
    (tmp_path / "main.c").write_text(ARITHMETIC)
    command = ["gcc", "-O2", "-static", *BOARD.toolchain.flags, f"-ffp-contract={contract}", "-Ip/runtime/include"]
    sources = ["-Ip/runtime", "p/runtime/core/arithmetic.c", "main.c"]
    subprocess.run([*command, *sources, "-o", "program"], check=True, cwd=tmp_path)
    found = {}
    for emulator in BOARD.emulators:
        if emulator.kind is EmulatorKind.QEMU_USER:
            run = [emulator.program, *emulator.args, str(tmp_path / "program")]
            found[emulator.name] = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert found == {"qemu-haswell": f"{haswell}\n", "qemu-nehalem": "0\n"}


def test_ops_are_no_places_to_stop_at(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = make(MODEL, "x86-64", W8A8)
    assert main(["debug", str(folder), "--emulator", "qemu-haswell", "--break", "layer0.router", "--print-only"]) == 2
    assert "--break: x86-64 has the layers several times (also for v3)" in capsys.readouterr().err


def test_kernels_with_another_packing_are_refused(tmp_path: Path) -> None:
    level = msgspec.structs.replace(BOARD.levels[0], kernels=("portable",))
    with pytest.raises(BadInput) as caught:
        generate(MODEL, msgspec.structs.replace(BOARD, levels=(level,)), W8A8, tmp_path / "p")
    assert str(caught.value).startswith("board x86-64: levels: the kernels of v3 want this model's weights packed in")
    assert caught.value.exit_code == 5 and not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "v3"', 'name = "v9"', "mine.toml:3: levels[0].name: nothing asks the processor for 'v9'"),
        ("arch=x86-64-v3", 'AVX2\\")))', "mine.toml:4: levels[0].target: 'AVX2\")))' is no target of an attribute"),
        ('"avx2", "portable"', '"avx2"', "mine.toml:5: levels[0].kernels: the list does not end with portable"),
        ('"avx2", "portable"', '"avx", "portable"', "mine.toml:5: levels[0].kernels[0]: no kernel folder 'avx'"),
        ("[[levels]]", "[[levels]]\nfast = true", "mine.toml:3: levels[0].fast: unknown key"),
        ('inherits = "x86-64"', 'inherits = "aarch64-sve2"', "levels: nothing asks a processor of aarch64 for sets"),
        ('inherits = "x86-64"', 'inherits = "windows-x86-64"', "levels: sets of instructions of a windows board"),
        (
            "[[levels]]",
            '[[levels]]\nname = "v3"\ntarget = "arch=x"\nkernels = ["portable"]\n[[levels]]',
            "two are called",
        ),
    ],
)
def test_what_is_wrong_with_a_level(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = 'inherits = "x86-64"\n[[levels]]\nname = "v3"\ntarget = "arch=x86-64-v3"\nkernels = ["avx2", "portable"]\n'
    assert load_from(tmp_path, text).levels == BOARD.levels
    with pytest.raises(BadInput, match=re.escape(said)):
        load_from(tmp_path, text.replace(old, new))


def load_from(folder: Path, text: str) -> Board:
    (folder / "mine.toml").write_text(text)
    return load_board(folder / "mine.toml")


def test_the_emulators_are_of_each_level() -> None:
    kinds = [one.kind for one in BOARD.emulators]
    assert kinds == [EmulatorKind.NATIVE, *[EmulatorKind.QEMU_USER] * (1 + len(BOARD.levels))]
