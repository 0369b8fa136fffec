"""What was measured, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from colibri.bench.model import Bench

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def time_words(ns: int) -> str:
    """Three digits and a unit.

    >>> time_words(624), time_words(1988), time_words(16_132_330), time_words(0)
    ('624 ns', '1.99 µs', '16.1 ms', '0 ns')
    """
    size, unit = next(((size, unit) for size, unit in _UNITS if ns >= size), (1, "ns"))
    value = ns / size
    return f"{value:.{0 if size == 1 or value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def print_benches(benches: Sequence[tuple[str, Bench]], console: Console) -> None:
    """A table for each package, given with its name, and below it what the machine gives."""
    for name, bench in benches:
        room = f"  prefill {bench.prefill}, context {bench.context}" if bench.context else ""
        facts = f"  {bench.model}  {bench.scheme}  {bench.board}{room}"
        console.print(Text.assemble((name, "bold"), facts), soft_wrap=True)
        _print_calls(bench, console)
        for line in _limits(bench):
            console.print(line, soft_wrap=True)
        console.print()
    note = "a second: by all calls together; jitter: P99 less P50; first call: before warming up"
    console.print(Text(note, "dim"), soft_wrap=True)


def _print_calls(bench: Bench, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for column in (f"{bench.unit}s a second", "P50", "P95", "P99", "worst", "jitter"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in bench.series:
        threads = f", {one.threads} threads" if one.threads > 1 else ""
        rate = f"{one.per_second:,.0f}" if one.per_second >= 100 else f"{one.per_second:.3g}"
        times = (one.p50_ns, one.p95_ns, one.p99_ns, one.worst_ns, one.jitter_ns)
        table.add_row(f"{one.name} {one.items:,}{threads}", rate, *map(time_words, times))
    console.print(table)


def _limits(bench: Bench) -> Iterator[str]:
    seen = (f"{one.samples:,} of {one.name}, first {time_words(one.first_ns)}" for one in bench.series)
    yield f"calls: {'; '.join(seen)}"
    yield f"reading all {bench.model_bytes:,} bytes of weights: {bench.bandwidth.mb_s / 1000:.1f} GB/s"
    for one in bench.series:
        share = bench.share(one)
        if share is not None and one.read_mb_s is not None:
            speed = one.read_mb_s / 1000
            yield f"{one.name} reads {one.read_bytes:,} of them a call: {speed:.1f} GB/s, {share:.0%} of that"
    if bench.spin is not None:
        p50, p99, worst = map(time_words, (bench.spin.p50_ns, bench.spin.p99_ns, bench.spin.worst_ns))
        yield f"a loop without memory: {p50}, P99 {p99}, worst {worst}; so much the system does"
