"""Each mistake in a board file is one line that names the file, the line where possible, and the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from board_files import GOOD, error_of, write

from colibri.boards.load import load_board, read_board
from colibri.errors import BadInput
from colibri.paths import data_folder


def test_a_board_of_ones_own(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, GOOD))
    assert board.id == "mine"
    assert [region.length for region in board.memory] == [0x10000, 0x2000]
    assert load_board(str(tmp_path / "mine.toml")) == board


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stack = 1024", "stak = 1024", "mine.toml:6: stak: unknown key; did you mean 'stack'?"),
        ("core =", "cores =", "mine.toml:10: cpu.cores: unknown key; did you mean 'core'?"),
        ("stack = 1024", 'id = "x"', "mine.toml:6: id: unknown key"),
        ("length = 0x2000", "lenght = 0x2000", "mine.toml:30: memory[1].lenght: unknown key; did you mean 'length'?"),
        ('kind = "ram"', 'kind = "rom"', "mine.toml:28: memory[1].kind: unknown word 'rom'; did you mean 'ram'?"),
        (
            '"weights"]',
            '"weigths"]',
            "mine.toml:24: memory[0].holds[1]: unknown word 'weigths'; did you mean 'weights'?",
        ),
        ("0x2000\n", '"8K"\n', "mine.toml:30: memory[1].length: expected integer, got string"),
        ("fpu = false", "fpu = 0", "mine.toml:11: cpu.fpu: expected boolean, got integer"),
        ('title = "A board"\n', "", "mine.toml: title is missing"),
        ('core = "Cortex-M3"\n', "", "mine.toml:8: cpu: core is missing"),
        ("title =", "title", "mine.toml: not TOML:"),
        ('arch = "arm"', 'arch = "armm"', "mine.toml:9: cpu.arch: unknown architecture 'armm'; did you mean 'arm'?"),
        ('arch = "arm"', 'arch = "x86_64"', 'mine.toml:3: kind: no bare-metal start-up for x86_64; use kind = "linux"'),
        (
            '["portable"]',
            '["portable", "dsp"]',
            "mine.toml:4: kernels: the list does not end with portable; every op has a portable kernel",
        ),
        (
            '["portable"]',
            "[]",
            "mine.toml:4: kernels: the list does not end with portable; every op has a portable kernel",
        ),
        ('["portable"]', '["dsp", "dsp", "portable"]', "mine.toml:4: kernels: 'dsp' is there twice"),
        *(
            (
                '["portable"]',
                f'["{name}", "portable"]',
                f"mine.toml:4: kernels[0]: no kernel folder '{name}'; ",
            )
            for name in ("portable/../portable", "./portable", "/", "..", "dps", "")
        ),
        (
            '"cortex_m"',
            '"../ports/cortex_m"',
            "mine.toml:5: port: no port '../ports/cortex_m'; did you mean 'cortex_m'?",
        ),
        (
            '"stm32vldiscovery"',
            '"a\\u0000b"',
            "mine.toml:37: emulators[0].args[1]: has the character \\x00; write text on one line",
        ),
        ('"A board"', '"A\\u001b[31m"', "mine.toml:1: title: has the character \\x1b; write text on one line"),
        ('"A board"', f'"{"x" * 1001}"', "mine.toml:1: title: 1001 characters; at most 1000"),
        ("stack = 1024", f"stack = {'9' * 5000}", "mine.toml: a number is too large"),
        ("stack = 1024", "stack = 9223372036854775808", "mine.toml: a number is too large"),
        ("stack = 1024", f"stack = {'[' * 20}{']' * 20}", "mine.toml: nested too deeply"),
        ("stack = 1024", f"stack = {'[' * 9000}", "mine.toml: nested too deeply"),
        ("stack = 1024", f"stack{'.a' * 9000} = 1", "mine.toml: nested too deeply"),
        ("stack = 1024", "stack = 1024 #" + "x" * 65536, "more than the 65536 that such a file may have"),
        ("stack = 1024", "stack = 1000", "mine.toml:6: stack: 1000 bytes; give a positive multiple of 16"),
        ("stack = 1024\n", "", "mine.toml: stack: 0 bytes"),
        (
            "stack = 1024",
            "stack = 8192",
            "stack: 8192 bytes, and 'sram' may hold 8192; lower stack until there is room",
        ),
        (
            "stack = 1024",
            "stack = 1024\nreserve = 8192",
            "reserve: 8192 bytes, and 'sram' may hold 8192; lower reserve until there is room for the rest",
        ),
        (
            "origin = 0x08000000",
            "origin = 0x08000040",
            "mine.toml:22: memory[0].origin: code at 0x8000040, where the core takes no vectors; give an origin that i",
        ),
        (
            '"bkpt"',
            '"bkpt"\norigins = { flash = 0x20 }',
            "mine.toml:40: emulators[0].origins.flash: code at 0x20, where the core takes no vectors; give an origin t",
        ),
        ("stack = 1024", "stack = 1024\nreserve = -1", "mine.toml:7: reserve: -1 bytes"),
        (
            "origin = 0x20000000",
            "origin = 0x0800fff0",
            "mine.toml:29: memory[1].origin: regions overlap: 'flash' from 0x8000000 to 0x800ffff and 'sram' from 0x80",
        ),
        ('name = "sram"', 'name = "flash"', "mine.toml:27: memory[1].name: two regions are called 'flash'"),
        (
            'name = "sram"',
            'name = "S-RAM"',
            "mine.toml:27: memory[1].name: 'S-RAM' becomes a linker symbol; use small letters, digits and _",
        ),
        (
            'name = "sram"',
            'name = "len"',
            "mine.toml:27: memory[1].name: 'len' is a word of linker scripts; choose another one",
        ),
        (
            "length = 0x2000",
            "length = 0x2000\nclock = { register = 4, bits = 1 }",
            "mine.toml:31: memory[1].clock: a clock for what the start-up itself needs, in 'sram'; it is on already, o",
        ),
        (
            "length = 0x2000",
            "length = 0",
            "mine.toml:30: memory[1].length: 'sram' has 0 bytes from 0x20000000; give the chip's own numbers, in bytes",
        ),
        (
            "origin = 0x20000000",
            "origin = 0xffffffff",
            "mine.toml:29: memory[1].origin: 'sram' has 8,192 bytes from 0xffffffff; give the chip's own numbers, in b",
        ),
        (
            "0x2000\n",
            "0x2000\nbudget = 0x2001\n",
            "mine.toml:31: memory[1].budget: 8,193 bytes of the 8,192 that 'sram' has; a budget is a part of the regio",
        ),
        (
            "0x2000\n",
            "0x2000\nbudget = 0x1000\nwarn = 0x1001\n",
            "mine.toml:32: memory[1].warn: 4,097 bytes, and 4,096 may be used; give at most the budget, or 0 for no wa",
        ),
        (
            "0x2000\n",
            "0x2000\nwarn = -1\n",
            "mine.toml:31: memory[1].warn: -1 bytes, and 8,192 may be used; give at most the budget, or 0 for no warni",
        ),
        (
            '"arena"]',
            '"arena", "weights"]',
            "mine.toml:31: memory[1].holds[3]: 'sram' is of kind ram and cannot hold weights; are flash and ram swappe",
        ),
        (
            'kind = "flash"',
            'kind = "ram"',
            "mine.toml:24: memory[0].holds[0]: 'flash' is of kind ram and cannot hold code; are flash and ram swapped?",
        ),
        (
            "origin = 0x08000000",
            "origin = 0x30000000",
            "mine.toml:22: memory[0].origin: flash 'flash' at 0x30000000, where the M profile has SRAM; are flash and ",
        ),
        (', "arena"]', "]", "mine.toml:19: memory: no region holds arena; name it in one region's `holds`"),
        (
            'name = "vldiscovery"',
            'name = "../x"',
            "mine.toml:34: emulators[0].name: '../x' becomes part of file names; use small letters, digits, - and _; n",
        ),
        (
            'name = "vldiscovery"',
            'name = "board"',
            "mine.toml:34: emulators[0].name: 'board' becomes part of file names; use small letters, digits, - and _; ",
        ),
        (
            '"qemu-system-arm"\n',
            '""\n',
            "mine.toml:36: emulators[0].program: program '' for kind qemu-system; name the executable",
        ),
        ('"map"', '"machine"', "kind qemu-system proves machine; a native run proves the machine, and no other does"),
        ('"bkpt"', '"ebreak"', "mine.toml:39: emulators[0].trap: trap 'ebreak'; for this board it is bkpt or svc"),
        (
            '"bkpt"',
            '"svc"',
            "mine.toml:39: emulators[0].trap: trap 'svc' with kind qemu-system; svc belongs to qemu-user, and only the",
        ),
        (
            '"bkpt"',
            '"bkpt"\norigins = { ram = 0 }',
            "mine.toml:40: emulators[0].origins.ram: moves a region 'ram' that the board has not; did you mean 'sram'?",
        ),
        ('"bkpt"', '"bkpt"\norigins = { sram = 0x08000000 }', "in its memory map, regions 'sram' and 'flash' overlap"),
        (
            'core = "Cortex-M3"',
            'core = "Cortex-M3P"',
            "mine.toml:10: cpu.core: unknown core 'Cortex-M3P' of arm; did you",
        ),
        (
            'core = "Cortex-M3"',
            'core = "cortex-m3"',
            "did you mean 'Cortex-M3'? A core that is in no list: add unlisted",
        ),
        ('core = "Cortex-M3"', 'core = "Mine"', ". A core that is in no list: add unlisted = true below it"),
        ("fpu = false", "fpu = false\nunlisted = true", "mine.toml:12: cpu.unlisted: is true, but Cortex-M3 is listed"),
        (
            '"-mcpu=cortex-m3"',
            '"-mcpu=cortex-m4"',
            "mine.toml:16: toolchain.flags[1]: -mcpu=cortex-m4 is a Cortex-M4, and cpu.core says Cortex-M3; one of",
        ),
        ('"-mthumb"', '"-mcpu=cortex-m3"', "mine.toml:16: toolchain.flags: -mcpu is given twice; keep the one"),
        ('["code", "weights"]', '["code", "weights", "code"]', "mine.toml:24: memory[0].holds: code is there twice"),
        ('["code", "weights"]', '["weights"]', "mine.toml:19: memory: no region holds code; name it in"),
        (
            "0x2000\n",
            "0x2000\ncost = 1_000_001\n",
            "mine.toml:31: memory[1].cost: cost 1000001; the fastest memory has",
        ),
        (
            "origin = 0x20000000",
            "origin = 0xdfff_f000",
            "memory[1].origin: 'sram' ends at 0xe0000fff: the M profile has its own registers from 0xe0000000",
        ),
        (
            "origin = 0x08000000",
            "origin = 0x4000_0000",
            "memory[0].origin: 'flash' at 0x40000000 is to hold code, which the M profile never runs there; code lies",
        ),
        (
            '"bkpt"',
            '"bkpt"\norigins = { sram = -1 }',
            "mine.toml:40: emulators[0].origins: in its memory map 'sram' has 8,192 bytes from -0x1; addresses have 32",
        ),
        ('"bkpt"', '"bkpt"\norigins = { sram = 0xffff_f000 }', "'sram' has 8,192 bytes from 0xfffff000; addresses"),
        (
            "title",
            'inherits = "_cortex"\ntitle',
            "mine.toml:1: inherits: no file '_cortex' to inherit from; did you mean '",
        ),
        (
            "title",
            'inherits = "mine"\ntitle',
            "mine.toml:1: inherits: inherits in a circle: 'mine' comes back to itself",
        ),
        ("title", "inherits = 1\ntitle", "mine.toml:1: inherits: expected the name of one file, in quotes"),
    ],
)
def test_mistakes(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert GOOD.count(old) >= 1
    assert message in error_of(write(tmp_path, GOOD.replace(old, new, 1)))


def test_origins_that_are_swapped(tmp_path: Path) -> None:
    text = GOOD.replace("0x08000000", "0").replace("0x20000000", "0x08000000").replace("= 0\n", "= 0x20000000\n")
    assert error_of(write(tmp_path, text)) == (
        "mine.toml:22: memory[0].origin: the origins of 'flash' and 'sram' are swapped: flash at 0x20000000, where the "
        "M profile has SRAM, and RAM at 0x8000000, where it has flash; exchange them"
    )


def test_all_that_is_wrong_can_be_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("stack = 1024", "stack = 1000").replace('-m3"\n', '-m3F"\n').replace('-m3"]', '-m4"]')
    read = read_board(write(tmp_path, text.replace('"data", ', "")))
    assert read.board is not None
    assert [re.sub(r".*toml:(\d+): .*", r"\1", str(fault)) for fault in read.faults] == ["6", "16", "19"]
    read = read_board(write(tmp_path, GOOD.replace("stack =", "stak =").replace('"ram"', '"rom"')))
    assert read.board is None
    assert [re.sub(r".*toml:(\d+): .*", r"\1", str(fault)) for fault in read.faults] == ["6", "28"]


def test_a_core_that_is_in_no_list(tmp_path: Path) -> None:
    text = GOOD.replace("Cortex-M3", "Acme M3-like").replace("fpu = false", "fpu = false\nunlisted = true")
    assert load_board(write(tmp_path, text)).cpu.unlisted


@pytest.mark.parametrize("old", ["stack =", '"weights"]', "title =", '"A board"', '"portable"', '"stm32vldiscovery"'])
def test_a_name_of_pages_is_cut(old: str, tmp_path: Path) -> None:
    long = "n" * 50_000
    new = f"{long} =" if old.endswith("=") else f'"{long}"' + "]" * old.endswith("]")
    assert len(error_of(write(tmp_path, GOOD.replace(old, new, 1)))) < 700


def test_a_special_file_is_no_board(tmp_path: Path) -> None:
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    assert error_of(tmp_path / "zero.toml") == "zero.toml: is not a file or a pipe"
    assert "File name too long" in error_of(tmp_path / f"{'n' * 300}.toml")


def test_code_behind_a_bootloader(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, GOOD.replace("0x08000000", "0x08001080")))
    assert board.memory[0].origin == 0x08001080


@pytest.mark.parametrize(("origin", "message"), [("0x8000_0004", ""), ("0x8000_0002", "that is a multiple of 4,")])
def test_riscv_vectors_are_aligned_to_an_instruction(origin: str, message: str, tmp_path: Path) -> None:
    text = (data_folder("boards") / "riscv-virt-rv32imac.toml").read_text()
    path = write(tmp_path, text.replace("= 0x8000_0000", f"= {origin}").replace("= 0x40_0000", "= 0x3f_f000"))
    if message:
        assert message in error_of(path)
    else:
        assert load_board(path).memory[0].origin == int(origin.replace("_", ""), 16)


def test_riscv_start_up_sets_no_clocks(tmp_path: Path) -> None:
    text = (data_folder("boards") / "riscv-virt-rv32imac.toml").read_text()
    more = '[[memory]]\nname = "more"\nkind = "ram"\norigin = 0x9000_0000\nlength = 64\n'
    clock = "clock = { register = 0x9100_0000, bits = 1 }\n"
    error = error_of(write(tmp_path, text.replace("[[emulators]]", f"{more}{clock}\n[[emulators]]", 1)))
    assert "memory[2].clock: only the start-up for Arm M profile sets clocks" in error
    load_board(write(tmp_path, text.replace("[[emulators]]", f"{more}\n[[emulators]]", 1)))


def test_two_emulators_of_one_name(tmp_path: Path) -> None:
    emulator = GOOD[GOOD.index("[[emulators]]") :]
    assert "two emulators are called 'vldiscovery'" in error_of(write(tmp_path, f"{GOOD}\n{emulator}"))


def test_a_linux_board_cannot_run_on_a_bare_machine(tmp_path: Path) -> None:
    path = write(tmp_path, 'inherits = "x86-64-v3"\n' + GOOD[GOOD.index("[[emulators]]") :].replace('"bkpt"', '""'))
    assert "kind qemu-system does not run an image of kind linux; use native or qemu-user" in error_of(path)


def test_a_linux_board_has_one_region_of_each_kind(tmp_path: Path) -> None:
    regions = "".join(
        f'[[memory]]\nname = "{name}"\nkind = "{kind}"\nlength = 0\nholds = [{holds}]\n'
        for name, kind, holds in (
            ("image", "flash", '"code", "weights"'),
            ("ram", "ram", '"data", "stack", "arena"'),
            ("more", "ram", '"arena"'),
        )
    )
    path = write(tmp_path, f'inherits = "x86-64-v3"\n{regions}')
    assert "memory: two regions of kind ram, and nobody can tell the loader which one to use" in error_of(path)


def test_unknown_board_names_the_nearest() -> None:
    with pytest.raises(BadInput, match=re.escape("no board 'stm32f407'; did you mean 'stm32f405'?")):
        load_board("stm32f407")


@pytest.mark.parametrize("name", ["_cortex_m", "../boards/stm32f405", ""])
def test_only_boards_are_boards(name: str) -> None:
    with pytest.raises(BadInput, match="no board"):
        load_board(name)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert error_of(tmp_path / "none.toml") == "none.toml: no such file"
    (tmp_path / "folder.toml").mkdir()
    assert "is not a file" in error_of(tmp_path / "folder.toml")
    (tmp_path / "binary.toml").write_bytes(b"title = '\xff'")
    assert error_of(tmp_path / "binary.toml") == "binary.toml: not UTF-8 text: line 1"


@pytest.mark.parametrize(
    ("flash", "says"),
    [
        ('probe_rs = "STM32; reboot"', "flash.probe_rs: 'STM32; reboot' is no name of a chip"),
        ('pyocd = "--help"', "flash.pyocd: '--help' is no name of a chip"),
        (
            'openocd = ["target/stm32f1x.cfg", "../../evil.cfg"]',
            "flash.openocd[1]: '../../evil.cfg' is no file of OpenOCD",
        ),
        ('openocd = ["/tmp/evil.cfg"]', "flash.openocd[0]: '/tmp/evil.cfg' is no file of OpenOCD"),
        ('openocd = ["-c shutdown"]', "flash.openocd[0]"),
        ("uf2 = 0x1_0000_0000", "flash.uf2: 0x100000000; a family id has 32 bits"),
        ('drive = "../home"', "flash.drive: '../home'"),
        ('drive = "A-LONG-LABEL"', "at most 11 characters"),
        ('probers = "STM32F103RB"', "flash.probers: unknown key; did you mean 'probe_rs'?"),
    ],
)
def test_what_goes_to_the_command_lines_of_flash_tools(tmp_path: Path, flash: str, says: str) -> None:
    assert says in error_of(write(tmp_path, f"{GOOD}\n[flash]\n{flash}\n"))


def test_a_board_with_linux_is_not_flashed(tmp_path: Path) -> None:
    path = write(tmp_path, 'inherits = "x86-64-v3"\n[flash]\nst_flash = true\n')
    assert "flash: only bare metal is flashed, a program is copied" in error_of(path)
