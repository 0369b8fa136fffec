"""The whole 8-bit model is larger than a NUCLEO-H743ZI: the report comes all the same, and says by how much."""

import json
from pathlib import Path

import pytest
from board_packages import EXAMPLES

from colibri.cli import main


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
