"""The whole 8-bit model is larger than a NUCLEO-H743ZI: the report comes all the same, and says by how much."""

import json
import re
import shutil
from pathlib import Path

import pytest
from board_packages import EXAMPLES

from colibri.cli import main
from colibri.toolchain.places import zig_folders


def test_the_report_says_by_how_many_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "package"
    arguments = [
        "build",
        str(EXAMPLES / "shakespeare-moe"),
        "--board",
        "nucleo-h743zi",
        "--scheme",
        "w8a8",
        "--kv",
        "f16",
    ]
    assert main([*arguments, "-o", str(folder)]) == 3
    printed = capsys.readouterr()
    assert not (folder / "build/product.elf").exists()
    assert main(["report", str(folder), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    flash = next(region for region in report["regions"] if region["name"] == "flash")
    over = flash["used"] - 2 * 1024 * 1024
    assert over > 200_000
    assert f"{over:,}" in printed.out
    assert f"flash is over by {over:,} bytes" in printed.err or f"{over:,} bytes" in printed.err
    assert printed.err.count("\n") == 1
    # The weights alone account for it: nothing is hidden in rows without a name.
    assert sum(group["bytes"] for group in flash["groups"]) == flash["used"]


def test_a_stack_that_leaves_no_room_is_what_must_shrink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "mine.toml"
    board.write_text('inherits = "stm32f405"\nstack = 0x1_FF00\n')
    checkpoint = str(EXAMPLES / "load-moe/top1-e4")
    arguments = ["build", checkpoint, "--board", str(board), "-o", str(tmp_path / "package"), "--no-fit-stack"]
    assert main(arguments) == 3
    message = capsys.readouterr().err
    assert "mine: the image is too large: sram by " in message
    assert "in the board file is enough, not 130816; or `colibri build --fit-stack`" in message
    assert "experts" not in message
    assert main(arguments[:-1]) == 0


def test_a_stack_that_is_not_to_blame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "mine.toml"
    board.write_text('inherits = "stm32f405"\nreserve = 0x1_FF00\n')
    arguments = ["build", str(EXAMPLES / "load-moe/top1-e4"), "--board", str(board), "-o", str(tmp_path / "package")]
    assert main(arguments) == 3
    assert "fewer experts, a smaller scheme" in capsys.readouterr().err


SMALL_FLASH = (
    'inherits = "nucleo-f446re"\n'
    '[[memory]]\nname = "flash"\nkind = "flash"\norigin = 0x0800_0000\nlength = 0x4000\n'
    'holds = ["code", "weights"]\n[[memory]]\nname = "sram"\nkind = "ram"\norigin = 0x2000_0000\n'
    'length = 0x2_0000\nholds = ["data", "stack", "arena"]\n'
)


@pytest.mark.parametrize(("family", "behind"), [("clang", "nothing"), ("zig", "nothing"), ("zig", "another region")])
def test_an_image_of_lld_is_reported_too(
    family: str, behind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if family == "zig" and not zig_folders() and shutil.which("zig") is None:
        pytest.skip("zig is not installed: pip install ziglang")
    board, folder = tmp_path / "mine.toml", tmp_path / "package"
    text = SMALL_FLASH
    if behind == "another region":  # the weights, where the code would go on
        text = text.replace("0x4000", "0x1000").replace('holds = ["code", "weights"]', 'holds = ["code"]', 1) + (
            '[[memory]]\nname = "more"\nkind = "flash"\norigin = 0x0800_1000\nlength = 0x8000\nholds = ["weights"]\n'
        )
    board.write_text(text)
    arguments = ["build", str(EXAMPLES / "load-moe/top1-e4"), "--board", str(board), "--toolchain", family]
    assert main([*arguments, "-o", str(folder)]) == 3
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert not (folder / "build/product.elf").exists()
    if behind == "another region":
        assert re.search(r": does not fit: flash by [\d,]+ bytes; no report says what takes them", printed.err)
        return
    assert main(["report", str(folder), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    flash = next(region for region in report["regions"] if region["name"] == "flash")
    over = flash["used"] - 0x4000
    assert over > 0 and f"{over:,}" in printed.out and f"flash by {over:,} bytes" in printed.err
    assert sum(group["bytes"] for group in flash["groups"]) == flash["used"]
    assert report["regions"][1]["used"] <= 0x2_0000
    assert main(["report", str(folder / "build/oversize.elf"), "--json"]) == 3
    alone = json.loads(capsys.readouterr().out)
    assert [region["used"] for region in alone["regions"]] == [region["used"] for region in report["regions"]]
    # With more flash it fits, to the byte that was asked for.
    board.write_text(SMALL_FLASH.replace("0x4000", str(0x4000 + over)))
    assert main([*arguments, "-o", str(folder)]) == 0
