"""Instructions per token or per inference, counted by QEMU's plugin from the model's entry to its return."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colibri.boards.profile import Emulator
from colibri.emulate.protocol import Request
from colibri.emulate.symbols import Symbols
from colibri.package import Package
from colibri.profile.inputs import source_requests
from colibri.profile.measure import measure
from colibri.profile.watch import make_watch
from colibri.toolchain.buildfiles import image_name

CALLS = 16


@dataclass(frozen=True)
class InstructionCount:
    """An exact count; it says nothing about time.

    Attributes:
        per_call: instructions of one token (mean over positions 0 to 15) or of one call of forward, those of the
            compiler's helpers included.
        unit: ``token`` or ``call of N samples``.
        at: the positions that it is a mean of, in words; empty for calls.
        by_function: instructions per call, the most expensive first.
    """

    per_call: int
    unit: str
    at: str
    by_function: dict[str, int]


def count_instructions(
    folder: Path, package: Package, emulator: Emulator, timeout: float = 120.0
) -> InstructionCount | None:
    """Count in the test image, which must be built; None outside QEMU, where there is no plugin.

    Raises:
        ToolMissing: no C compiler for the plugin, or no emulator.
        EmulatorFailed: hang or fault.
    """
    if not emulator.kind.is_qemu:
        return None
    image = folder / image_name(package.board, emulator, "test")
    tokens = package.model.kind == "tokens"
    calls = min(CALLS, package.context) if tokens else CALLS
    random = np.random.Generator(np.random.PCG64(7))
    requests = [Request("I"), *source_requests(package)]
    if tokens:
        requests.append(Request("S", random.integers(0, package.model.outputs, calls).astype("<u4").tobytes()))
    else:
        shape = (package.batch, package.model.inputs)
        requests += [Request("F", random.standard_normal(shape).astype("<f4").tobytes()) for _ in range(calls)]
    watch = make_watch(folder, package, image, memory=False)
    measured, _ = measure(image, package, emulator, watch, requests, timeout).split()
    totals: dict[str, int] = {}
    for address, count in zip(measured.addresses.tolist(), measured.executions.sum(axis=0).tolist(), strict=True):
        name = watch.symbols.function_at(address) or "?"
        totals[name] = totals.get(name, 0) + count
    plural = "s" if package.batch > 1 else ""
    return InstructionCount(
        per_call=round(sum(one.instructions for one in measured.inferences) / calls),
        unit="token" if tokens else f"call of {package.batch} sample{plural}",
        at=f"positions 0 to {calls - 1}" if tokens else "",
        by_function={
            name: round(count / calls) for name, count in sorted(totals.items(), key=lambda item: (-item[1], item[0]))
        },
    )


def model_functions(folder: Path, image: Path) -> set[str]:
    """Functions of the model's archive that are linked into an image."""
    made = {name for path in (folder / "build" / "library").rglob("*.o") for _, _, name in Symbols.of(path).functions}
    return made & {name for _, _, name in Symbols.of(image).functions}
