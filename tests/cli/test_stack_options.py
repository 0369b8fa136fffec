"""`colibri build --fit-stack` and `colibri report --observe`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from colibri.cli.build import command as build
from colibri.cli.report import command as report
from colibri.errors import UsageError
from colibri.footprint.report import Report
from colibri.package import load_package

CHECKPOINT = Path(__file__).resolve().parents[2] / "examples" / "load-moe" / "top1-e4"


def built(folder: Path, board: str, *options: str) -> str:
    done = CliRunner().invoke(build, [str(CHECKPOINT), "--board", board, "-o", str(folder), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.emulator
def test_fitted_and_observed(tmp_path: Path) -> None:
    shown = built(tmp_path / "p", "stm32f405", "--fit-stack")
    done = CliRunner().invoke(report, [str(tmp_path / "p"), "--observe", "--json"])
    read = msgspec.json.decode(done.stdout, type=Report)
    assert read.stack is not None
    assert read.stack.needed == read.stack.reserve
    assert f"= {read.stack.needed:,} of {read.stack.reserve:,} reserved" in shown
    (run,) = read.observed
    assert run.program.observed
    assert "top1_e4_forward" in [entry.name for entry in run.entries]
    text = CliRunner().invoke(report, [str(tmp_path / "p"), "--observe"]).stdout
    assert "stack on netduinoplus2" in text
    assert f"{run.program.observed:,}" in text


def test_full_report_bounds_each_public_function(tmp_path: Path) -> None:
    built(tmp_path / "p", "x86-64-v3")
    text = CliRunner().invoke(report, [str(tmp_path / "p"), "--full"]).stdout
    assert "stack: not bounded, " in text
    assert "stack of the model: top1_e4_forward takes " in text
    assert "  top1_e4_init: " in text


@pytest.mark.emulator
def test_observed_under_linux(tmp_path: Path) -> None:
    built(tmp_path / "p", "x86-64-v3", "--fit-stack")
    done = CliRunner().invoke(report, [str(tmp_path / "p"), "--observe", "--json"])
    native, run = msgspec.json.decode(done.stdout, type=Report).observed
    assert (native.emulator, run.emulator) == ("native", "qemu-x86_64")
    assert native.weights is None
    assert run.weights is not None
    text = CliRunner().invoke(report, [str(tmp_path / "p"), "--observe"]).stdout
    touched, all_pages = run.weights.pages, run.weights.of_pages
    assert f"touched on qemu-x86_64: weights {touched} of {all_pages}, memory in ram 1 of 1" in text


def test_without_an_emulator_nothing_is_observed(tmp_path: Path) -> None:
    built(tmp_path / "p", "stm32f405")
    folder = tmp_path / "p"
    package = load_package(folder)
    msgspec.structs.replace(package, board=msgspec.structs.replace(package.board, emulators=())).save(folder)
    done = CliRunner().invoke(report, [str(folder), "--observe"])
    assert done.exit_code == 0
    assert "nothing is observed, no emulator of the board shows it" in done.stderr


@pytest.mark.emulator
def test_only_a_package_can_be_observed(tmp_path: Path) -> None:
    built(tmp_path / "p", "stm32f405")
    with pytest.raises(UsageError, match="needs a package"):
        CliRunner().invoke(
            report, [str(tmp_path / "p/build/product.elf"), "--observe"], catch_exceptions=False, standalone_mode=False
        )
