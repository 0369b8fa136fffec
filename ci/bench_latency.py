"""How long the slowest calls take, for ci/bench: P99 over P50, beside a loop without memory between the calls."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bench_models import LOAD, MEDIUM, SHORT, built, table

from colibri.bench.model import Series, Spin

TURNS = 7  # others share the processor: one turn alone may be theirs


def measure_latency(work: Path, board: str, *, quick: bool) -> str:
    """A table of the medians, of calls and of the loop, and of the one by the other within a turn."""
    turns = 1 if quick else TURNS
    asked = [(SHORT if quick else MEDIUM, "10"), (LOAD, "2")]
    rows = []
    for model, seconds in asked:
        package = built(work, model, board, "w8a8")
        prompt = ["--prompt", "1", "--tokens", "64"] if model.tokens else []
        calls, spins = list[Series](), list[Spin]()
        for _ in range(turns):
            found = package.bench("--seconds", seconds, "--spin", *prompt)
            assert found.spin is not None
            calls.append(found.series[-1])
            spins.append(found.spin)
        own, loop = ([one.p99_ns / one.p50_ns for one in some] for some in (calls, spins))
        ratios = [median(own), median(loop), median(a / b for a, b in zip(own, loop, strict=True))]
        times = [median(one.p50_ns for one in calls), median(one.p99_ns for one in calls)]
        times += [max(one.worst_ns for one in some) for some in (calls, spins)]
        shown = [f"{ns / 1000:,.1f}" for ns in times]
        count = f"{sum(one.samples for one in calls):,}"
        rows.append([f"{model.name} w8a8, {calls[0].name}", count, *shown, *(f"{ratio:.2f}" for ratio in ratios)])
    header = ["", "calls", "P50 µs", "P99 µs", "worst µs", "worst of the loop, µs"]
    header += ["P99 / P50", "the loop's P99 / P50", "the first by the second"]
    return f"Medians of {turns} turns, and the worst of all.\n\n{table(header, rows)}"
