"""Percentiles of runtime_c/ports/latency.h on known samples: nearest rank, exact, whatever the order and the number."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from colibri.paths import data_folder

SOURCE = """\
#include "latency.h"

struct latency of(uint64_t *values, uint32_t most, const uint64_t *added, uint32_t count)
{
    struct latency_samples samples = {values, most, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (latency_add(&samples, added[i]) != (i < most)) {
            samples.count = UINT32_MAX;
            break;
        }
    }
    return latency_summary(&samples);
}
"""
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")


class Latency(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("total", "least", "p50", "p95", "p99", "worst")),
    )

    def figures(self) -> tuple[int, ...]:
        return self.count, self.total, self.least, self.p50, self.p95, self.p99, self.worst


@pytest.fixture(scope="module", params=["gcc", "clang"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler: str = request.param
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    folder = tmp_path_factory.mktemp("latency")
    (folder / "latency.c").write_text(SOURCE)
    ports = data_folder("runtime_c") / "ports"
    command = [
        compiler,
        "-std=c11",
        "-O2",
        *WARNINGS,
        f"-I{ports}",
        "-shared",
        "-fPIC",
        "latency.c",
        "-o",
        "latency.so",
    ]
    subprocess.run(command, cwd=folder, check=True)
    loaded = ctypes.CDLL(str(folder / "latency.so"))
    loaded.of.restype = Latency
    return loaded


def summary(library: ctypes.CDLL, added: list[int], most: int | None = None) -> tuple[int, ...]:
    room = len(added) if most is None else most
    numbers = ctypes.c_uint64 * max(1, len(added))
    found: Latency = library.of((ctypes.c_uint64 * max(1, room))(), room, numbers(*added), len(added))
    return found.figures()


def test_known_samples(library: ctypes.CDLL) -> None:
    assert summary(library, list(range(100, 0, -1))) == (100, 5050, 1, 50, 95, 99, 100)
    assert summary(library, [15, 20, 35, 40, 50]) == (5, 160, 15, 35, 50, 50, 50)
    assert summary(library, [7]) == (1, 7, 7, 7, 7, 7, 7)
    assert summary(library, [2**63, 1, 2**62]) == (3, 2**63 + 2**62 + 1, 1, 2**62, 2**63, 2**63, 2**63)
    assert summary(library, []) == (0,) * 7


def test_what_has_no_room_is_not_counted(library: ctypes.CDLL) -> None:
    assert summary(library, [5, 4, 3, 2, 1], most=3) == (3, 12, 3, 4, 5, 5, 5)


@pytest.mark.parametrize("count", [*range(2, 40), 99, 100, 101, 199, 200, 201, 1000, 12345])
def test_every_percentile_is_the_nearest_rank(library: ctypes.CDLL, count: int) -> None:
    random_numbers = random.Random(count)
    added = [random_numbers.choice((3, 10**6, 10**12)) + random_numbers.randrange(count) for _ in range(count)]
    ordered = sorted(added)

    def percentile(percent: int) -> int:
        return next(value for rank, value in enumerate(ordered, 1) if 100 * rank >= percent * count)

    expected = (count, sum(added), ordered[0], *map(percentile, (50, 95, 99)), ordered[-1])
    assert summary(library, added) == expected


def test_it_is_copied_to_boards_that_can_use_it(tmp_path: Path) -> None:
    from colibri.boards.load import load_board
    from colibri.emit.linker import port_files

    has = {name: Path("latency.h") in port_files(load_board(name)) for name in ("stm32f405", "rk3588", "wasm32")}
    assert has == {"stm32f405": True, "rk3588": True, "wasm32": False}
