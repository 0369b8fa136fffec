"""The machine that ci/bench runs on: its limits, measured by ci/bench_limits.c, and its name."""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench_models import ROOT, run, table

PEAKS = {"avx2": "AVX2", "vnni512": "AVX-512 VNNI"}
BUSY = 0.05  # of the processors, by others, before anything is measured


@dataclass
class Limits:
    """ci/bench_limits.c, compiled, and what its calls gave."""

    program: Path
    rounds: dict[tuple[str, ...], list[float]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def make(cls, work: Path) -> Limits:
        program = work / "limits"
        flags = ["-std=c11", "-O2", "-march=x86-64-v3", "-ffp-contract=off", "-fno-math-errno", "-pthread"]
        run(["gcc", *flags, f"-I{ROOT / 'runtime_c'}", str(ROOT / "ci/bench_limits.c"), "-o", str(program)])
        return cls(program)

    def measure(self, *call: str) -> float:
        """One figure, in 10⁹ a second or in ns; 0 where this processor has no such instructions."""
        done = subprocess.run([str(self.program), *call], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            self.rounds[call].append(float(done.stdout))
            return self.rounds[call][-1]
        if done.returncode != 3:
            sys.exit(f"limits {' '.join(call)}: {done.returncode}")
        return 0.0

    def found(self, *call: str) -> float:
        return median(self.rounds[call]) if self.rounds[call] else 0.0


def busy() -> float:
    """The share of this machine's processors that others take, over two seconds."""

    def ticks() -> tuple[int, int]:
        found = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(found), found[3] + found[4]  # idle, and waiting for a disk

    before = ticks()
    time.sleep(2)
    all_ticks, idle = (now - then for now, then in zip(ticks(), before, strict=True))
    return 1 - idle / all_ticks


def machine(limits: Limits, given: argparse.Namespace, rounds: int, others: float) -> str:
    """What the machine gives, and who took part.

    Args:
        others: the share of the processors that others took when it began.
    """
    processor = dict(re.findall(r"^([^\t:]+)\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    model = f"{processor['model name']} (family {processor['cpu family']}, model {processor['model']})"
    left_out = [name for name in ("llama", "torch", "ort", "llama2c") if getattr(given, name) is None]
    lines = [f"{model}, {os.cpu_count()} processors, {platform.system()} {platform.release()}."]
    lines += [f"{time.strftime('%d %B %Y')}, {rounds} round{'s' if rounds > 1 else ''}."]
    if others > BUSY:
        lines += [f"**The machine was busy** ({others:.0%} of it at the start): these times say little."]
    lines += [f"Left out, since not given: {', '.join(left_out)}."] if left_out else []
    rows = [
        [
            f"reading {int(size):,} bytes again and again, {threads} thread{'s' if threads != '1' else ''}",
            f"{median(found):.1f} GB/s",
        ]
        for (what, size, threads), found in (item for item in limits.rounds.items() if item[0][0] == "read")
    ]
    for name, words in PEAKS.items():
        if found := limits.measure("peak", name):
            rows.append([f"int8 multiply-adds in registers, {words}", f"{found:.0f} · 10⁹/s"])
    for experts in ("8", "128"):
        for call, words in (("select", ""), ("router", ", with their weights")):
            for _ in range(3):
                limits.measure(call, experts, "2")
            nanoseconds = limits.found(call, experts, "2")
            rows.append([f"choosing 2 of {experts} experts{words}, logits in the L1 cache", f"{nanoseconds:.0f} ns"])
    return "\n".join(lines) + f"\n\n{table(['this machine', 'median'], rows)}"
