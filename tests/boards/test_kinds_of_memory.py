"""Memory that is not just flash and SRAM of the chip: tightly coupled, external, or too small."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make

from colibri.cli import main
from colibri.footprint.report import make_report
from colibri.graph.graph import StateType
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.testing import check_package

SENSOR = EXAMPLES / "load-moe/top2-e4-norm"
LONG = Options(Scheme.W4A8, StateType.F32, prefill=4, context=168, drop=PRUNED)


@pytest.mark.emulator
def test_sdram_holds_what_is_left_over_and_the_readme_says_who_sets_it_up(make: Make) -> None:
    folder, package = make(EXAMPLES / "shakespeare-moe", "stm32f746g-disco", LONG)
    blocks = {block.region: block.total for block in package.memory.blocks}
    assert list(blocks) == ["dtcm", "sram", "sdram"]
    assert blocks["sdram"] > 32 << 10
    assert "- `sdram` needs the application to set up pins" in (folder / "README.md").read_text()
    (result,) = check_package(folder, emulators=("exact-map",), check_memory=True)
    assert result.passed and result.outputs > 60


def test_a_readme_says_nothing_of_memory_that_is_not_used(make: Make) -> None:
    folder, package = make(SENSOR, "stm32f746g-disco")
    assert {block.region for block in package.memory.blocks} == {"dtcm"}
    assert "needs" not in (folder / "README.md").read_text()


@pytest.mark.emulator
def test_kernels_run_from_itcm_on_a_chip_without_flash(make: Make) -> None:
    folder, package = make(SENSOR, "nucleo-n657x0-q")
    assert package.fast_code is not None and package.fast_code.region == "itcm"
    assert [block.region for block in package.memory.blocks] == ["dtcm"]
    readme = (folder / "README.md").read_text()
    assert all(f"- `{region}` needs a first-stage bootloader" in readme for region in ("xspi", "xspi_data"))
    (result,) = check_package(folder, check_memory=True)
    assert result.passed and result.proves == "core"


@pytest.mark.emulator
@pytest.mark.parametrize("board", ["mps3-an547", "nucleo-n657x0-q"])
def test_lld_links_weights_that_have_regions_of_their_own(board: str, tmp_path: Path) -> None:
    """It takes the sections of a segment for one piece of the file."""
    out = tmp_path / "package"
    assert main(["build", str(SENSOR), "--board", board, "--toolchain", "clang", "-o", str(out)]) == 0
    assert main(["test", str(out)]) == 0


def test_a_language_model_does_not_fit_a_small_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(EXAMPLES / "shakespeare-moe"), "--board", "stm32vldiscovery", "--context", "8"]
    assert main(["build", *arguments, "-o", str(tmp_path / "package")]) == 3
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "too large" in line]
    assert "flash by 2," in line and "sram by " in line


@pytest.mark.parametrize("prefix", ["model", "hot_weights"])
def test_tables_named_like_the_sections_of_weights_are_no_weights(prefix: str, tmp_path: Path) -> None:
    """Each table is in a section `.rodata.NAME`, and its name begins with the prefix."""
    out = tmp_path / "package"
    assert main(["build", str(SENSOR), "--board", "stm32h750b-dk", "--prefix", prefix, "-o", str(out)]) == 0
    report = make_report(out)
    groups = {region.name: {group.kind: group.bytes for group in region.groups} for region in report.regions}
    assert set(groups["qspi"]) == {"weights"}
    weights = groups["qspi"]["weights"] + groups["flash"]["weights"]
    assert weights > 10_000
    # In the library they are not counted, whichever flash they go to.
    assert report.library is not None
    assert 0 < report.library.tables < groups["flash"]["tables"] < 2000


@pytest.mark.emulator
@pytest.mark.parametrize("region", ["axisram1", "axisram3456"])
def test_states_pinned_to_memory_that_is_the_applications(region: str, tmp_path: Path) -> None:
    out, place = tmp_path / "package", tmp_path / "place.toml"
    place.write_text(f'[memory]\n"layers.3.*" = "{region}"\n')
    arguments = [str(EXAMPLES / "shakespeare-moe"), "--board", "nucleo-n657x0-q", "--scheme", "w4a8", "--context", "32"]
    assert main(["build", *arguments, "--place", str(place), "-o", str(out)]) == 0
    assert f"- `{region}` needs the application to switch it on" in (out / "README.md").read_text()
    (result,) = check_package(out, check_memory=True)
    assert result.passed
