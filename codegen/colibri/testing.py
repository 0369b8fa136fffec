"""`colibri test`: the golden inputs on each emulated board, every output float compared by its bits."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.boards.profile import BoardKind, Emulator
from colibri.checkpoint.untrusted import is_there, read_bounded
from colibri.emulate.plugin import MemoryUse, Plugin, memory_check
from colibri.emulate.protocol import Response, encode_requests, parse_responses
from colibri.emulate.runner import run
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput, DoesNotFit, EmulatorFailed, UsageError, shown
from colibri.instructions import InstructionCount, count_instructions, model_functions
from colibri.package import Package, load_package
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name
from colibri.vectors import Answer, Case, load_vectors

_VECTOR_BYTES = 1 << 30
_TEST_THREADS = 3  # where the package takes what the machine has
# Exit codes of the test program: what colibri_check_arithmetic of runtime_c/include/colibri.h found.
_ARITHMETIC = {
    17: "a * b + c is fused and rounds once: compile with -ffp-contract=off",
    18: "denormals become zero: clear the flush-to-zero mode of the FPU, and link without -ffast-math",
    19: "results are not rounded to nearest even: restore the rounding mode of the FPU",
}


@dataclass(frozen=True)
class Mismatch:
    """The first difference of a case."""

    case: str
    what: str


@dataclass(frozen=True)
class EmulatorResult:
    """What a run in one emulator showed.

    Attributes:
        digest: SHA-256 over the bits of all outputs, in order; equal on every board.
        outputs: number of output floats compared.
        mismatches: first difference of each case that differs.
        memory: what the memory check saw, in words; None when it was not asked for, or outside QEMU.
        instructions: per token or call; None when not counted, or outside QEMU.
        failure: why the run gave no result: a hang, a fault or a damaged answer; None when it gave one.
    """

    emulator: str
    proves: str
    cases: int
    outputs: int
    digest: str
    mismatches: tuple[Mismatch, ...]
    memory: str | None = None
    instructions: InstructionCount | None = None
    failure: str | None = None

    @property
    def passed(self) -> bool:
        """Whether it ran, and every bit was equal."""
        return not self.mismatches and self.failure is None


def chosen_emulators(package: Package, names: tuple[str, ...]) -> list[Emulator]:
    """The board's emulators of these names, all when none is named.

    Raises:
        UsageError: the board has no emulator of a name.
    """
    known = {emulator.name: emulator for emulator in package.board.emulators}
    for name in names:
        if name not in known:
            raise UsageError(
                f"board {package.board.id} has no emulator '{shown(name)}'",
                where="--emulator",
                hint=f"it has {', '.join(known)}",
            )
    return [known[name] for name in names] if names else list(known.values())


def read_cases(folder: Path) -> list[Case]:
    """The package's golden vectors.

    Raises:
        BadInput: they are missing or damaged.
    """
    path = folder / "test" / "vectors.msgpack"
    if not is_there(path):
        raise BadInput("no test vectors", where=shown(str(path), 300), hint="generate the package again")
    return load_vectors(read_bounded(path, _VECTOR_BYTES), shown(str(path), 300))


def check_package(
    folder: Path,
    *,
    emulators: tuple[str, ...] = (),
    timeout: float = 120.0,
    check_memory: bool = False,
    instructions: bool = False,
    on_result: Callable[[EmulatorResult], None] = lambda _: None,
) -> list[EmulatorResult]:
    """Build the test images and run each; what one emulator fails at, the next may pass.

    Raises:
        BadInput: not a package.
        BuildFailed: the images do not build; `DoesNotFit` when the test program does not fit beside the model.
    """
    package = load_package(folder)
    cases = read_cases(folder)
    chosen = chosen_emulators(package, emulators)
    targets = sorted({image_name(package.board, emulator, "test") for emulator in chosen})
    if not build(folder, targets):
        raise DoesNotFit("the test image does not fit", where=package.board.id, hint="see `colibri report`")
    results = []
    for emulator in chosen:
        try:
            result = _run(folder, package, emulator, cases, timeout, check_memory, instructions)
        except EmulatorFailed as error:
            result = _nothing(emulator, cases, failure=str(error))
        on_result(result)
        results.append(result)
    return results


def _run(
    folder: Path,
    package: Package,
    emulator: Emulator,
    cases: list[Case],
    timeout: float,
    check_memory: bool,
    instructions: bool,
) -> EmulatorResult:
    """Run a test image that is built.

    Raises:
        EmulatorFailed: a hang, a fault or a damaged answer.
    """
    image = folder / image_name(package.board, emulator, "test")
    observe = check_memory and emulator.kind.is_qemu
    outcome = run(
        image,
        package.board,
        emulator,
        request=encode_requests([case.request for case in cases]),
        timeout=timeout,
        plugin=_memory_plugin(folder, package, image) if observe else None,
    )
    result = compare(package, emulator, cases, parse_responses(outcome.output), outcome.exit_code)
    if package.threads != 1 and result.passed:
        result = _with_threads(image, package, emulator, cases, timeout, result)
    if outcome.observation is not None and outcome.observation.memory is not None:
        result = _with_memory(result, outcome.observation.memory, Symbols.of(image), package.board.cpu.arch)
    if instructions and outcome.exit_code == 0:
        result = replace(result, instructions=count_instructions(folder, package, emulator, timeout))
    return result


def _with_threads(
    image: Path, package: Package, emulator: Emulator, cases: list[Case], timeout: float, alone: EmulatorResult
) -> EmulatorResult:
    """Once more with a team of threads, which has to give the same bits.

    Raises:
        EmulatorFailed: a hang, a fault or a damaged answer.
    """
    threads = package.threads or _TEST_THREADS
    told = Case(f"{threads} threads", "T", struct.pack("<I", threads), (Answer(0, struct.pack("<I", 0)),))
    shared = [one for case in cases for one in ([case, told] if case.op == "I" else [case])]
    requests = encode_requests([case.request for case in shared])
    outcome = run(image, package.board, emulator, request=requests, timeout=timeout)
    result = compare(package, emulator, shared, parse_responses(outcome.output), outcome.exit_code)
    found = [Mismatch(f"{one.case}, {threads} threads", one.what) for one in result.mismatches]
    return replace(alone, cases=alone.cases + len(cases), outputs=alone.outputs + result.outputs, mismatches=(*found,))


def _nothing(
    emulator: Emulator, cases: list[Case], *, mismatches: tuple[Mismatch, ...] = (), failure: str | None = None
) -> EmulatorResult:
    """No output was compared."""
    digest = hashlib.sha256().hexdigest()
    return EmulatorResult(emulator.name, str(emulator.proves), len(cases), 0, digest, mismatches, failure=failure)


def _memory_plugin(folder: Path, package: Package, image: Path) -> Plugin:
    """All code on bare metal; of a Linux program, whose C library has its own ways, only the model's."""
    if package.board.kind is BoardKind.BARE:
        return memory_check(image)
    model, samples = package.model, max(1, package.batch)
    objects = {  # of app/test.c, what it passes to the model
        **{f"{package.prefix}_{block.name}": block.total for block in package.memory.blocks},
        "tokens": 4 * (max(package.context, model.source) + 1),
        "inputs": 4 * samples * model.inputs,
        "outputs": 4 * samples * model.outputs,
    }
    return memory_check(image, sorted(model_functions(folder, image)), objects)


def _with_memory(result: EmulatorResult, memory: MemoryUse, symbols: Symbols, arch: str) -> EmulatorResult:
    """What is outside is wrong; so is what is unaligned, but on x86, whose compilers make one such store of several."""
    watched = [("outside the board's memory", memory.outside)]
    watched += [("unaligned", memory.unaligned)] if arch != "x86_64" else []
    found = [
        Mismatch(
            f"memory, {name}",
            f"{finding.count} accesses, first of {finding.size} bytes at {finding.address:#x} "
            f"from {symbols.describe(finding.pc) or hex(finding.pc)}",
        )
        for name, finding in watched
        if finding.count
    ]
    text = f"{memory.loads:,} loads, {memory.stores:,} stores, {memory.unaligned.count} unaligned"
    text += f", {memory.outside.count} outside the board's memory"
    if memory.lowest_stack_store is not None:
        text += f"; stack used {symbols.values['port_stack_top'] - memory.lowest_stack_store:,} bytes"
    return replace(result, mismatches=(*result.mismatches, *found), memory=text)


def compare(
    package: Package, emulator: Emulator, cases: list[Case], responses: list[Response], exit_code: int
) -> EmulatorResult:
    """Compare answers with the golden ones, bit for bit."""
    expected = sum(len(case.answers) for case in cases)
    where = f"{package.board.id} on {emulator.name}"
    if exit_code in _ARITHMETIC:
        first = Mismatch("float arithmetic", _ARITHMETIC[exit_code])
        return _nothing(emulator, cases, mismatches=(first,))
    if exit_code != 0:
        raise EmulatorFailed(f"the test program ended with code {exit_code}", where=where)
    mismatches: list[Mismatch] = []
    digest = hashlib.sha256()
    outputs, at = 0, 0
    for case in cases:
        differences = []
        for index, answer in enumerate(case.answers):
            if at == len(responses):
                differences.append("no answer")
                break
            response = responses[at]
            at += 1
            if case.op not in "VI":
                digest.update(struct.pack("<i", response.status) + response.payload)
            outputs += len(response.payload) // 4 if case.op in "PSF" else 0
            if found := difference(answer, response):
                differences.append(f"answer {index}: {found}" if len(case.answers) > 1 else found)
        if differences:
            mismatches.append(Mismatch(case.title, differences[0]))
    if at < len(responses):
        mismatches.append(Mismatch("the whole run", f"{len(responses)} answers, expected {expected}"))
    return EmulatorResult(
        emulator.name, str(emulator.proves), len(cases), outputs, digest.hexdigest(), tuple(mismatches)
    )


def difference(answer: Answer, response: Response) -> str:
    """The first difference in words; empty when there is none."""
    if response.status != answer.status:
        return f"status {response.status}, expected {answer.status}"
    if response.payload == answer.payload:
        return ""
    if len(response.payload) != len(answer.payload):
        return f"{len(response.payload) // 4} words, expected {len(answer.payload) // 4}"
    got = struct.unpack(f"<{len(answer.payload) // 4}I", response.payload)
    want = struct.unpack(f"<{len(answer.payload) // 4}I", answer.payload)
    places = [i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b]
    first = places[0]
    value = struct.unpack("<f", struct.pack("<I", got[first]))[0]
    right = struct.unpack("<f", struct.pack("<I", want[first]))[0]
    return (
        f"{len(places)} of {len(want)} outputs differ, first [{first}]: "
        f"{got[first]:08x} ({value:.9g}), expected {want[first]:08x} ({right:.9g})"
    )
