"""A checkpoint that is larger than the memory that it is made in; an interrupt leaves nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from colibri.package import FILE_NAME

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"layers": 1, "hidden": 1024, "intermediate": 3584, "heads": 8, "kv-heads": 2, "vocab": 8000, "context": 64}
MOST = 160 << 20  # bytes; Python with numpy alone has some 50 MB, the weights as fp32 430 MB
# The peak of a program counts that of the one which starts it: so a small one does.
LAUNCHER = """
import json, os, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(json.dumps([code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "model"
    sizes = [f"--{name}={size}" for name, size in SIZES.items()]
    program = [sys.executable, str(ROOT / "ci/synthetic-mixtral"), str(folder), *sizes, "--shard=90000000"]
    subprocess.run(program, check=True, capture_output=True)
    return folder


def command(checkpoint: Path, out: Path, scheme: str) -> list[str]:
    board = ["--board", "raspberry-pi-5", "--scheme", scheme]
    return [sys.executable, "-m", "colibri", "generate", str(checkpoint), *board, "-o", str(out)]


@pytest.mark.parametrize("scheme", ["w8a8", "w4a8"])
def test_memory_stays_far_below_the_checkpoint(checkpoint: Path, tmp_path: Path, scheme: str) -> None:
    shards = sorted(checkpoint.glob("*.safetensors"))
    assert len(shards) == 3 and sum(path.stat().st_size for path in shards) > 210_000_000
    program = [sys.executable, "-c", LAUNCHER, *command(checkpoint, tmp_path / "out", scheme)]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    code, peak = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert peak < MOST, f"{peak:,} bytes"
    assert (tmp_path / "out" / FILE_NAME).is_file()


def test_an_interrupt_in_the_middle_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(command(checkpoint, tmp_path / "out", "w8a8"), stderr=subprocess.PIPE, text=True)
    started = time.monotonic()
    while not list(tmp_path.glob(".colibri-*/model.bin")):
        assert process.poll() is None and time.monotonic() - started < 60
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "colibri: interrupted\n")
    assert not list(tmp_path.iterdir())
