"""An estimate of the time on the board, from documents: cycles of instructions, and a clock."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from colibri.boards.profile import Board
from colibri.profile.model import Estimate

_FILE = Path(__file__).resolve().parent / "cores.toml"
_LINE = re.compile(r"\s*([0-9a-f]+):\t(\S+)\s*([^@;]*)")
_CONDITION = "(?:eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)?"
_LIST = re.compile(r"\{([^}]*)\}")
_WRITES_FIRST = ("ldr", "mov", "add", "sub")


class Cycles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cycles of a kind of instruction.

    Attributes:
        match: regular expression for the whole mnemonic, without condition, ``s`` and width; ``_pc`` is appended to
            one that loads the program counter.
        each: added for each register of a list.
    """

    match: str
    least: int
    most: int
    each: int = 0


class Core(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A core that documents say something about.

    Attributes:
        name: as in `Cpu.core`.
        cycles: by kind of instruction; empty when only ``least`` is known.
        least: cycles for each instruction that no sequence can undercut.
    """

    name: str
    assumes: str
    sources: tuple[str, ...]
    cycles: tuple[Cycles, ...] = ()
    least: float = 0.0


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The highest clock of a board."""

    board: str
    mhz: float
    source: str


class Cores(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of `cores.toml`."""

    core: tuple[Core, ...]
    clock: tuple[Clock, ...]


@dataclass(frozen=True)
class Estimator:
    """Makes estimates for one image.

    Attributes:
        bounds: address to least and most cycles; empty when the core has only a floor.
        problem: why nothing can be estimated; then nothing else counts.
    """

    core: Core | None
    mhz: float
    clock_source: str
    bounds: dict[int, tuple[int, int] | str]
    problem: str = ""

    def estimate(self, addresses: NDArray[np.uint64], executions: NDArray[np.int64]) -> Estimate | str:
        """For executions of the instructions at these addresses; in words why there is none."""
        if self.problem or self.core is None:
            return self.problem
        instructions = int(executions.sum())
        most: int | None = None
        if not self.core.cycles:
            least = int(instructions * self.core.least)
        else:
            least = most = 0
            for address, times in zip(addresses.tolist(), executions.tolist(), strict=True):
                if times:
                    bound = self.bounds.get(address, "nothing")
                    if isinstance(bound, str):
                        return f"no document here says how long {bound} takes on a {self.core.name}"
                    least += times * bound[0]
                    most += times * bound[1]
        return Estimate(
            cycles=(least, most),
            milliseconds=(least / self.mhz / 1e3, None if most is None else most / self.mhz / 1e3),
            clock_mhz=self.mhz,
            assumes=self.core.assumes,
            sources=(*self.core.sources, self.clock_source),
        )


def load_cores() -> Cores:
    """Read `cores.toml`."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=Cores)


def make_estimator(board: Board, image: Path, clock_mhz: float | None) -> Estimator:
    """What is known of the board's core and clock.

    Args:
        clock_mhz: the user's; None takes the board's highest.
    """
    cores = load_cores()
    core = next((core for core in cores.core if core.name == board.cpu.core), None)
    clock = next((clock for clock in cores.clock if clock.board == board.id), None)
    if core is None:
        return Estimator(None, 0, "", {}, f"no document here says how long instructions take on a {board.cpu.core}")
    if clock_mhz is not None:
        mhz, source = clock_mhz, "clock: as given"
    elif clock is not None:
        mhz, source = clock.mhz, clock.source
    else:
        return Estimator(None, 0, "", {}, f"the clock of {board.id} is not known; give --clock-mhz")
    if not core.cycles:
        return Estimator(core, mhz, source, {})
    program = shutil.which(f"{board.toolchain.prefix}objdump")
    if program is None:
        return Estimator(None, 0, "", {}, f"{board.toolchain.prefix}objdump is not installed")
    command = [program, "-d", "--no-show-raw-insn", str(image)]
    text = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    ).stdout
    return Estimator(core, mhz, source, _bounds(core, text))


def _bounds(core: Core, text: str) -> dict[int, tuple[int, int] | str]:
    """Address to cycles, or to the mnemonic when no rule matches."""
    rules = [(re.compile(f"(?:{rule.match})s?{_CONDITION}"), rule) for rule in core.cycles]
    found: dict[int, tuple[int, int] | str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            mnemonic, operands = match[2].split(".")[0], match[3].strip()
            found[int(match[1], 16)] = cycles_of(rules, mnemonic, operands)
    return found


def cycles_of(rules: list[tuple[re.Pattern[str], Cycles]], mnemonic: str, operands: str) -> tuple[int, int] | str:
    """Least and most cycles; the mnemonic when no rule matches."""
    registers = _registers(operands)
    name = mnemonic
    if "pc" in registers or (mnemonic.startswith(_WRITES_FIRST) and operands.startswith("pc")):
        name += "_pc"
    for pattern, rule in rules:
        if pattern.fullmatch(name):
            more = rule.each * sum(2 if register.startswith("d") else 1 for register in registers)
            return rule.least + more, rule.most + more
    return mnemonic


def _registers(operands: str) -> list[str]:
    """Names of a register list, ranges spelt out.

    >>> _registers("sp!, {r4-r6, pc}")
    ['r4', 'r5', 'r6', 'pc']
    """
    match = _LIST.search(operands)
    registers: list[str] = []
    for part in match[1].split(",") if match else ():
        first, _, last = part.strip().partition("-")
        if last:
            registers += [f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)]
        else:
            registers.append(first)
    return registers
