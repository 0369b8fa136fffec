"""`colibri profile` on real packages: everything sums, and planted branches are found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from shared_objects import SharedObjects

from colibri.boards.load import load_board
from colibri.cli import main
from colibri.generate import generate
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import load_package
from colibri.profile.model import PositionCost, Profile, Verdict
from colibri.toolchain.build import build

ROOT = Path(__file__).resolve().parents[2]
SENSOR = ROOT / "examples/load-moe/top2-e4-norm"
TOKENS = ROOT / "tests/oracle/mixtral-sharded-swa"
BOARDS = ("stm32f405", "nucleo-h743zi", "riscv-virt-rv32imac", "raspberry-pi-5", "aarch64-sve2", "x86-64-v3")
FPU = tuple(board for board in BOARDS if load_board(board).cpu.fpu)

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def sensor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that tests copy before they change it."""
    folder = tmp_path_factory.mktemp("sensor") / "package"
    generate(SENSOR, load_board("stm32f405"), Options(), folder)
    return folder


def profiled(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, code: int = 0) -> Profile:
    assert main(["profile", str(folder), "--json", *arguments]) == code
    return msgspec.json.decode(capsys.readouterr().out, type=Profile)


def assert_sums(cost: PositionCost) -> None:
    assert sum(one.instructions for one in cost.functions) == cost.instructions
    assert sum(step.instructions for step in cost.steps) == cost.instructions
    assert sum(cost.layers().values()) == cost.instructions
    assert sum(step.macs for step in cost.steps) == cost.macs
    assert (cost.unaligned, cost.outside) in ((0, 0), (0, None))


# What of the model depends on data without an FPU.
SOFT = {"colibri_dot_f32", "colibri_rare_product", "colibri_rare_sum", "colibri_soft_add", "colibri_soft_scale_row"}


@pytest.mark.parametrize("board", BOARDS)
def test_sensor_model_on_every_board(
    board: str, tmp_path: Path, objects: SharedObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "package"
    generate(SENSOR, load_board(board), Options(batch=2), folder)
    objects.lend(folder)
    profile = profiled(capsys, folder)
    (cost,) = profile.positions
    assert profile.no_steps == ""
    assert_sums(cost)
    assert cost.macs == 2 * (13 * 24 + 24 * 4 + 2 * (24 * 32 + 32 * 24) + 24 * 2)
    weights = sum(one.load_bytes for one in cost.memory if one.content == "weights")
    assert weights > 2 * 2 * (24 * 32 + 32 * 24)  # two experts for each of two samples, a byte a weight
    (spread,) = profile.spread
    assert spread.minimum <= spread.median <= spread.maximum
    if board in FPU:
        assert profile.control_flow.verdict is Verdict.CONSTANT
        assert spread.minimum == spread.maximum
    else:
        assert profile.control_flow.verdict is Verdict.DATA
        # Sums whose leading bits cancel, and what is no normal number, go ways of their own.
        assert {one.name for one in profile.control_flow.varying if one.model} == SOFT


@pytest.mark.parametrize("board", ["nucleo-h743zi", "x86-64-v3"])
def test_token_model_grows_up_to_its_window(
    board: str, tmp_path: Path, objects: SharedObjects, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "package"
    generate(TOKENS, load_board(board), Options(Scheme.W4A8, StateType.F16, prefill=4, context=64), folder)
    objects.lend(folder)
    profile = profiled(capsys, folder)
    for cost in profile.positions:
        assert_sums(cost)
        assert set(cost.layers()) == {-1, 0, 1, 2}
    first, middle, last = profile.positions
    assert [cost.position for cost in profile.positions] == [0, 32, 63]
    assert first.instructions < middle.instructions
    assert middle.macs - first.macs == 3 * 2 * 32 * 15  # layers, q.k and the sum, width, positions in the window
    assert middle.macs == last.macs
    assert profile.prefill is not None
    assert profile.prefill.tokens == 4
    assert profile.control_flow.verdict is Verdict.CONSTANT
    assert all(one.minimum == one.maximum for one in profile.spread)


def plant(folder: Path, path: str, pattern: str, text: str) -> None:
    source = (folder / path).read_text()
    changed, count = re.subn(pattern, text, source)
    assert count, pattern
    (folder / path).write_text(changed)


def test_a_branch_on_data_is_found(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(sensor, tmp_path / "package")
    slow = '    if (x > 0.5f) {\n        __asm__ volatile("");\n        x = x * 2.0f - x;\n    }\n'
    plant(folder, "runtime/kernels/portable/float32.h", r"(?<=colibri_relu\(float x\)\n\{\n)", slow)
    profile = profiled(capsys, folder, "--require-constant", code=1)
    assert profile.control_flow.verdict is Verdict.DATA
    assert {one.name for one in profile.control_flow.varying} == {"relu_24", "relu_32"}
    (spread,) = profile.spread
    assert spread.minimum < spread.maximum


def test_a_loop_over_the_choice_is_told_apart(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(sensor, tmp_path / "package")
    slow = '        for (uint32_t i = 0; i < route_index[slot]; i++) {\n            __asm__ volatile("");\n        }\n'
    plant(folder, "src/model.c", r"(?=        const uint8_t \*const expert = )", slow)
    profile = profiled(capsys, folder, "--require-constant")
    assert profile.control_flow.verdict is Verdict.CHOICE
    assert len(profile.control_flow.varying) == 1
    assert profile.control_flow.same_choice > 0


def test_the_users_data(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "samples.npy", np.random.default_rng(3).standard_normal((9, 13)))
    profile = profiled(capsys, sensor, "--data", str(tmp_path / "samples.npy"), "--most", "5")
    assert profile.inputs == "5 calls from samples.npy"
    assert profile.spread[0].inferences == 5


def test_the_clock_scales_the_estimate(sensor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = profiled(capsys, sensor).positions[0].estimate
    slow = profiled(capsys, sensor, "--clock-mhz", "84").positions[0].estimate
    assert fast is not None
    assert slow is not None
    assert fast.clock_mhz == 168
    assert slow.milliseconds[0] == pytest.approx(2 * fast.milliseconds[0])
    assert fast.cycles[1] is not None
    assert fast.cycles[0] < fast.cycles[1]


def test_experts_that_ran(sensor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = profiled(capsys, sensor)
    package = load_package(sensor)
    assert [(one.layer, one.expert) for one in profile.experts] == [(0, number) for number in range(4)]
    assert sum(one.inferences for one in profile.experts) == 2 * profile.control_flow.inferences  # two for each call
    assert len({one.inferences for one in profile.experts}) > 1
    assert (profile.abi_hash, profile.recipe_hash) == (package.abi_hash, package.recipe_hash)


def test_the_page_counts_when_it_is_asked_to(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, page = shutil.copytree(sensor, tmp_path / "package"), tmp_path / "page.html"
    build(folder, ["build/product.elf"])
    np.save(tmp_path / "samples.npy", np.random.default_rng(3).standard_normal((9, 13)))
    report = ["report", str(folder), "--html", "-o", str(page)]
    assert main(report) == 0
    assert 'id="experts"' not in page.read_text(encoding="utf-8")
    assert main([*report, "--profile", "--data", str(tmp_path / "samples.npy")]) == 0
    counted = page.read_text(encoding="utf-8")
    assert 'id="experts"' in counted and "9 calls from samples.npy" in counted
    capsys.readouterr()
    saved = tmp_path / "profile.json"
    assert main(["profile", str(folder), "--json", "--data", str(tmp_path / "samples.npy")]) == 0
    saved.write_text(capsys.readouterr().out)
    assert main([*report, "--profile-from", str(saved)]) == 0
    assert page.read_text(encoding="utf-8") == counted


def test_a_profile_of_an_earlier_build_is_refused(
    sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, saved = tmp_path / "package", tmp_path / "profile.json"
    assert main(["profile", str(sensor), "--json"]) == 0
    saved.write_text(capsys.readouterr().out)
    generate(SENSOR, load_board("stm32f405"), Options(Scheme.W4A8), folder)
    build(folder, ["build/product.elf"])
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "--html", "--profile-from", str(saved), "-o", str(page)]) == 5
    assert "a profile of an earlier build of this package" in capsys.readouterr().err
    assert not page.exists()


def test_the_table_names_everything(sensor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(sensor), "--full"]) == 0
    text = capsys.readouterr().out
    for part in ("Experts", "layer 0", "linear_w8a8_1x32x24_bias", "flash weights", "control flow: constant"):
        assert part in text
    assert "estimate of time, from documents; not measured" in text
    assert text.index("between") < text.index("source: Arm Cortex-M4")
    assert "proves the map" in text


def test_a_native_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(SENSOR, load_board("x86-64-v3"), Options(), tmp_path / "package")
    assert main(["profile", str(tmp_path / "package"), "--emulator", "native"]) == 2
    assert "not in a native run; try --emulator qemu-x86_64" in capsys.readouterr().err


def test_no_compiler_for_the_plugin(
    sensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    which = shutil.which
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("cc", "gcc", "clang") else which(name))
    assert main(["profile", str(sensor)]) == 4
    assert "no C compiler to build the QEMU plugin" in capsys.readouterr().err


def test_steps_that_the_package_does_not_list(sensor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(sensor, tmp_path / "package")
    package = load_package(folder)
    first, *others = package.ops
    msgspec.structs.replace(package, ops=(msgspec.structs.replace(first, repeats=2), *others)).save(folder)
    profile = profiled(capsys, folder)
    assert profile.positions[0].steps == ()
    assert "kernels were entered where the package lists" in profile.no_steps
