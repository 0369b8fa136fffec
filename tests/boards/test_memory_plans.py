"""Plans over several regions: the same bits as in one, nothing outside, and a report that sums."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from board_packages import EXAMPLES, Make
from safetensors.numpy import load_file, save_file
from small_models import ORACLE

from colibri.cli import main
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit
from colibri.footprint.report import make_report
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package, load_package
from colibri.passes.pins import load_pins
from colibri.paths import data_folder
from colibri.profile.inputs import built_in
from colibri.profile.profile import default_emulator, make_profile
from colibri.testing import check_package
from colibri.toolchain.build import build

MODEL = ORACLE / "mixtral-base"
OPTIONS = Options(scheme=Scheme.W4A8, context=48, prefill=3)


def derived(folder: Path, name: str, lengths: dict[str, int], stack: int = 2048, reserve: int = 0) -> Path:
    """A board like ``name``, with less memory."""
    text = (data_folder("boards") / f"{name}.toml").read_text()
    for region, length in lengths.items():
        text, found = re.subn(
            rf'(name = "{region}"\n(?:.*\n)*?length = )0x[0-9a-fA-F_]+', rf"\g<1>{length}", text, count=1
        )
        assert found == 1
    text = re.sub(r"(?m)^stack = .*$", f"stack = {stack}", text)
    text = re.sub(r"(?m)^reserve = .*$", f"reserve = {reserve}", text)
    path = folder / f"{name}-small.toml"
    path.write_text(text)
    return path


def digest_of(folder: Path) -> str:
    build(folder)
    results = check_package(folder, check_memory=True)
    assert all(result.passed for result in results), [result.mismatches for result in results]
    digests = {result.digest for result in results}
    assert len(digests) == 1
    report = make_report(folder)  # raises when rows do not sum, or the linker printed something else
    assert report.linked and not report.over()
    return digests.pop()


def regions_of(package: Package) -> list[str]:
    return [block.region for block in package.memory.blocks]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest on a board with one region of each kind."""
    from colibri.boards.load import load_board
    from colibri.generate import generate

    folder = tmp_path_factory.mktemp("plain") / "package"
    package = generate(MODEL, load_board("stm32f405"), OPTIONS, folder)
    assert [block.name for block in package.memory.blocks] == ["memory"]
    return digest_of(folder)


@pytest.mark.emulator
def test_four_regions_of_an_stm32h7(make: Make, plain: str, tmp_path: Path) -> None:
    sizes = {"dtcm": 14_336, "axi": 4_096, "sram1": 4_096, "sram2": 4_096, "itcm": 4_096}
    folder, package = make(MODEL, derived(tmp_path, "nucleo-h743zi", sizes), OPTIONS)
    assert regions_of(package) == ["dtcm", "axi", "sram1", "sram2"]
    assert package.fast_code is not None and package.fast_code.region == "itcm"
    assert digest_of(folder) == plain
    # Only the board itself has the register that switches SRAM1 and SRAM2 on.
    assert "port_clock_bits = 0x60000000;" in (folder / "port/board.ld").read_text()
    assert "port_clock_bits = 0x00000000;" in (folder / "port/mps2-an500.ld").read_text()


@pytest.mark.emulator
def test_keys_of_a_decoder_behind_an_encoder_in_two_regions(make: Make, tmp_path: Path) -> None:
    """Layers 2 and 4 are one C function; of each, one op writes the keys and another reads them: one state, two ops."""
    checkpoint = shutil.copytree(ORACLE / "switch-base", tmp_path / "three-decoder-layers")
    tensors = load_file(checkpoint / "model.safetensors")
    first = "decoder.block.0."
    again = {name.replace(first, "decoder.block.2."): tensors[name] for name in tensors if name.startswith(first)}
    tensors |= {name: value for name, value in again.items() if "relative_attention_bias" not in name}
    save_file(tensors, checkpoint / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text()) | {"num_decoder_layers": 3, "decoder_sparse_step": 2}
    (checkpoint / "config.json").write_text(json.dumps(config))
    board = derived(tmp_path, "nucleo-h743zi", {"dtcm": 24_576})
    folder, package = make(checkpoint, board, Options(scheme=Scheme.W4A8, context=16, source=16))
    assert regions_of(package) == ["dtcm", "axi"]
    assert "key_state_in;" in (folder / "src/model.c").read_text()  # some layers have it in one, some in the other
    assert check_package(folder, emulators=("mps2-an500",))[0].passed


@pytest.mark.emulator
def test_ccm_of_an_stm32f405(make: Make, plain: str, tmp_path: Path) -> None:
    folder, package = make(MODEL, derived(tmp_path, "stm32f405", {"sram": 12_288}), OPTIONS)
    assert regions_of(package) == ["sram", "ccm"]
    # The emulator has CCM elsewhere, so it does not prove the map of this package.
    assert [(one.proves, one.origins) for one in package.board.emulators] == [("core", {"ccm": 0x20020000})]
    assert digest_of(folder) == plain


def test_what_emulators_need_gives_way(make: Make, tmp_path: Path) -> None:
    """With the page behind the stack and the stack for faults of `exact-map` it would be over; without, it fits."""
    sizes = {"dtcm": 14_336, "axi": 2_048, "sram1": 4_096, "sram2": 4_096}
    folder, _ = make(MODEL, derived(tmp_path, "nucleo-h743zi", sizes), OPTIONS)
    build(folder, ["build/product.elf"])
    make_report(folder).require_fit()
    with pytest.raises(DoesNotFit, match="the product itself may fit"):
        check_package(folder, emulators=("exact-map",))
    (result,) = check_package(folder, emulators=("mps2-an500",))
    assert result.passed


def test_an_emulator_that_moves_what_is_not_used_proves_the_map(make: Make) -> None:
    _, package = make(MODEL, "stm32f405", OPTIONS)
    assert [(one.proves, one.origins) for one in package.board.emulators] == [("map", {})]


@pytest.mark.emulator
@pytest.mark.parametrize("flash", [0x5000, 0x8000, 0x2_0000], ids=["little", "some", "all"])
def test_weights_in_flash_and_qspi(flash: int, make: Make, plain: str, tmp_path: Path) -> None:
    board = derived(tmp_path, "stm32h750b-dk", {"flash": flash}, stack=8192)
    folder, package = make(MODEL, board, OPTIONS)
    hot = package.hot_weights
    assert hot is not None and hot.region == "flash"
    assert (folder / "hot.bin").stat().st_size == hot.bytes
    assert digest_of(folder) == plain
    # The raw image is for the internal flash alone.
    build(folder, ["build/product.bin"])
    assert (folder / "build/product.bin").stat().st_size <= flash
    rows = {region.name: {group.kind: group for group in region.groups} for region in make_report(folder).regions}
    assert rows["flash"]["weights"].bytes == rows["flash"]["weights"].predicted == hot.bytes
    assert rows["qspi"]["weights"].bytes == rows["qspi"]["weights"].predicted == package.model_bin_bytes


@pytest.mark.emulator
def test_a_damaged_hot_file_is_seen(make: Make, tmp_path: Path) -> None:
    folder, package = make(MODEL, derived(tmp_path, "stm32h750b-dk", {"flash": 0x8000}, stack=8192), OPTIONS)
    assert package.hot_weights is not None
    raw = bytearray((folder / "hot.bin").read_bytes())
    raw[package.hot_weights.sections[1].offset] ^= 1
    (folder / "hot.bin").write_bytes(raw)
    (result,) = check_package(folder, emulators=("exact-map",))
    assert not result.passed


def test_hot_and_cold_files_belong_together(make: Make, tmp_path: Path) -> None:
    """Files of two splits do not fit each other, as their code has other offsets."""
    hashes = []
    for flash in (0x5000, 0x8000):
        (tmp_path / str(flash)).mkdir()
        board = derived(tmp_path / str(flash), "stm32h750b-dk", {"flash": flash}, stack=8192)
        _, package = make(MODEL, board, OPTIONS)
        assert package.hot_weights is not None
        hashes += [package.abi_hash, package.hot_weights.abi_hash]
    assert len(set(hashes)) == 4


@pytest.mark.emulator
def test_pins_move_things_and_keep_bits(make: Make, plain: str, tmp_path: Path) -> None:
    file = tmp_path / "place.toml"
    file.write_text(
        '[memory]\nscores = "sram4"\n"layers.1.*" = "axi"\n[kernels]\n"attention_*" = "flash"\n"linear_*" = "itcm"\n'
    )
    options = Options(scheme=Scheme.W4A8, context=48, prefill=3, pins=load_pins(file))
    board = derived(tmp_path, "nucleo-h743zi", {})
    text = board.read_text()  # the emulated core has nothing at the address of SRAM4
    board.write_text(text.replace("sram2 = 0x6012_0000 }", "sram2 = 0x6012_0000, sram4 = 0x6014_0000 }"))
    folder, package = make(MODEL, board, options)
    spans = {span.name: block.region for block in package.memory.blocks for span in block.spans}
    assert (spans["scores"], spans["layers.1.key"], spans["layers.0.key"]) == ("sram4", "axi", "dtcm")
    assert package.fast_code is not None
    assert not any("attention" in name for name in package.fast_code.functions)
    assert any(name.startswith("linear_") for name in package.fast_code.functions)
    assert digest_of(folder) == plain
    linked = Symbols.of(folder / "build/product.elf")
    for start, _, name in linked.functions:  # also what the compiler did not inline
        if "attention" in name and not name.endswith("veneer"):
            assert start >= 0x08000000, name


@pytest.mark.emulator
def test_all_kernels_stay_in_flash(make: Make, plain: str, tmp_path: Path) -> None:
    """In the emulator the flash lies where ITCM is on the board, which then nothing uses."""
    file = tmp_path / "place.toml"
    file.write_text('[kernels]\n"*" = "flash"\n')
    options = Options(scheme=Scheme.W4A8, context=48, prefill=3, pins=load_pins(file))
    folder, package = make(MODEL, "nucleo-h743zi", options)
    assert package.fast_code is None
    assert digest_of(folder) == plain


def test_clocks_of_kernels_and_data(make: Make, tmp_path: Path) -> None:
    """SRAM3 holds nothing by default, so nobody else has switched it on."""
    file = tmp_path / "place.toml"
    file.write_text('[kernels]\n"*" = "sram3"\n')
    board = derived(tmp_path, "nucleo-h743zi", {})
    text = board.read_text().replace('holds = ["data", "stack", "arena"]', 'holds = ["stack", "arena"]')
    found = 'length = 0x2_0000\nholds = ["arena"]\ncost = 3\n'
    board.write_text(text.replace(found, found.replace('"arena"', '"data"'), 1))
    folder, _ = make(MODEL, board, Options(scheme=Scheme.W4A8, context=48, prefill=3, pins=load_pins(file)))
    assert "port_clock_bits = 0xa0000000;" in (folder / "port/board.ld").read_text()
    assert "port_clock_bits = 0x00000000;" in (folder / "port/mps2-an500.ld").read_text()


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["vectors", "stack", "data", "initialised"])
def test_names_of_regions_do_not_meet_those_of_segments(name: str, make: Make, plain: str, tmp_path: Path) -> None:
    board = derived(tmp_path, "nucleo-h743zi", {"dtcm": 14_336})
    board.write_text(board.read_text().replace('name = "axi"', f'name = "{name}"').replace(" axi =", f" {name} ="))
    folder, package = make(MODEL, board, OPTIONS)
    assert name in regions_of(package)
    assert digest_of(folder) == plain


@pytest.mark.emulator
def test_heat_is_what_the_emulator_counts(make: Make) -> None:
    """The last position of a context: bytes moved in states and in buffers, predicted from the shapes alone."""
    folder, package = make(MODEL, "nucleo-h743zi", OPTIONS)
    profile = make_profile(folder, package, default_emulator(package.board), built_in(package))
    counted: dict[str, int] = {}
    for one in profile.positions[-1].memory:
        counted[one.content] = counted.get(one.content, 0) + one.load_bytes + one.store_bytes
    heat = {"states": 0, "buffers": 0}
    for span in (span for block in package.memory.blocks for span in block.spans):
        if span.kind in ("state", "arena"):
            heat["states" if span.kind == "state" else "buffers"] += span.heat
    for kind, predicted in heat.items():
        assert 0.85 <= predicted / counted[kind] <= 1.15, (kind, predicted, counted[kind])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[memory]\nscore = "axi"', "memory: 'score' fits no name; did you mean 'scores'?"),
        ('[memory]\nscores = "flash"', "memory: 'scores': no region 'flash' for this"),
        ('[kernels]\n"linear_*" = "axi"', "kernels: 'linear_*': no region 'axi' for this"),
        ('[kernels]\n"linear_*" = "itcm"\n"attention_*" = "sram4"', "kernels are to be in 'itcm' and in 'sram4'"),
        ('[memory]\nscores = "itcm"', "kernels and buffers are both to be in 'itcm'; pin one of them to"),
        ('[memory]\nscores = "sram4"\n[kernels]\n"*" = "sram4"', "kernels and buffers are both to be in 'sram4'"),
        ('[weights]\n"layers.*" = "qspi"', "weights: 'layers.*': no region 'qspi' for this"),
    ],
)
def test_pins_that_cannot_be(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "place.toml"
    file.write_text(text)
    arguments = ["generate", str(EXAMPLES / "shakespeare-moe"), "--board", "nucleo-h743zi", "--place", str(file)]
    assert main([*arguments, "-o", str(tmp_path / "p")]) == 5
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "p").exists()


def test_the_demo_is_at_its_lower_bound(tmp_path: Path) -> None:
    for options in ([], ["--kv", "f16", "--prefill", "8"]):
        arguments = ["generate", str(EXAMPLES / "shakespeare-moe"), "--board", "nucleo-h743zi", "--scheme", "w4a8"]
        assert main([*arguments, *options, "-o", str(tmp_path / "p")]) == 0
        for block in load_package(tmp_path / "p").memory.blocks:
            assert (block.arena, block.proven) == (block.bound, True)
