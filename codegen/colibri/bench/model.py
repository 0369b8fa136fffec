"""What the bench program of a package measures: the form of its JSON. All times are nanoseconds by a steady clock."""

from __future__ import annotations

import msgspec

SCHEMA = 1


class Series(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls of one kind. Percentiles are exact: the smallest sample that so many percent do not exceed.

    Attributes:
        name: ``prefill`` or ``encode``, ``decode``; of sensor models ``forward``.
        threads: that a call runs on.
        items: tokens or samples in a call.
        samples: calls that were timed, after warming up.
        per_second: tokens or samples a second, by the time of all calls together.
        first_ns: the very first call, which also brings the weights into memory.
        jitter_ns: P99 less P50.
        read_bytes: of weights that one call reads; None where it depends on what several tokens or samples share.
        read_mb_s: the same over P50, in 10⁶ bytes a second.
    """

    name: str
    threads: int
    items: int
    samples: int
    per_second: float
    first_ns: int
    least_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    worst_ns: int
    jitter_ns: int
    read_bytes: int | None = None
    read_mb_s: int | None = None


class Bandwidth(msgspec.Struct, frozen=True):
    """How fast this machine reads model.bin from end to end with vector loads and nothing else, between the calls.

    Attributes:
        threads: that read.
        bytes: read each time; of a large file a part that moves on.
        samples: how often.
        p50_ns: for that many bytes.
        mb_s: 10⁶ bytes a second, by P50.
    """

    threads: int
    bytes: int
    samples: int
    p50_ns: int
    mb_s: int


class Spin(msgspec.Struct, frozen=True):
    """A loop in registers, as long as a call and run behind each: what the system alone does to such times."""

    samples: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    worst_ns: int
    jitter_ns: int


class Bench(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that one run of the program measured.

    Attributes:
        model: prefix of its C names.
        unit: ``token`` or ``sample``.
        model_bytes: of model.bin.
        clock_ns: the least that two looks at the clock are apart; it is part of every time.
        warm_up_runs: that were not measured.
        runs: that were: a prompt and the tokens behind it, or one call of forward.
        series: of the calls that were made; where the context is 1 nothing is decoded.
        spin: None when it was not asked for.
        prefill: tokens that a call takes in at once; None of sensor models, whose batch is in the series.
        context: that the package has room for; None of sensor models.
    """

    schema: int
    model: str
    scheme: str
    board: str
    abi_hash: str
    unit: str
    model_bytes: int
    clock_ns: int
    warm_up_runs: int
    runs: int
    series: tuple[Series, ...]
    bandwidth: Bandwidth
    spin: Spin | None = None
    prefill: int | None = None
    context: int | None = None

    def share(self, series: Series) -> float | None:
        """Of the machine's bandwidth, what a call's reading of weights takes, 0 to 1; None where it is not known."""
        if series.read_mb_s is None or not self.bandwidth.mb_s:
            return None
        return series.read_mb_s / self.bandwidth.mb_s
