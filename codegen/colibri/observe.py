"""What the emulator sees of stack and working memory: how deep each public function went, how much was touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from colibri.boards.profile import Emulator
from colibri.called import called_functions, observable, shows_all_accesses
from colibri.emulate.plugin import AddressRange, CallUse, MemoryUse, WatchedCall, memory_check
from colibri.emulate.protocol import encode_requests
from colibri.emulate.runner import run
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput, DoesNotFit, EmulatorFailed
from colibri.footprint.call_depth import depth_of, start_of
from colibri.footprint.stack import Bounds, Observed, ObservedBlock, ObservedEntry, ObservedPages, open_tree
from colibri.package import Package, load_package
from colibri.painted import observe_painted
from colibri.testing import chosen_emulators, read_cases
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name
from colibri.vectors import Case

_CHECK = "colibri_verify"  # reads all of model.bin


def observe(
    folder: Path,
    *,
    emulators: tuple[str, ...] = (),
    timeout: float = 120.0,
    on_result: Callable[[Observed], None] = lambda _: None,
) -> list[Observed]:
    """Run the test program of a package with every store watched, or where there is no plugin with its stack painted.

    Args:
        emulators: names; none means all. Those where nothing can be observed are left out.

    Raises:
        BadInput: not a package, or an image that cannot be read.
        BuildFailed: the images do not build; `DoesNotFit` when the test program does not fit beside the model.
        EmulatorFailed: a hang, a fault, or an exit code that is not 0.
        ToolMissing: no emulator, no disassembler, or no C compiler for the plugin.
    """
    package = load_package(folder)
    cases = read_cases(folder)
    chosen = [one for one in chosen_emulators(package, emulators) if observable(package.board, one)]
    if chosen and not build(folder, sorted({image_name(package.board, emulator, "test") for emulator in chosen})):
        raise DoesNotFit("the test image does not fit", where=package.board.id, hint="see `colibri report`")
    results = []
    for emulator in chosen:
        if emulator.kind.is_qemu:
            result = _Observer(folder, package, emulator, timeout).all(cases)
        else:
            result = observe_painted(folder, package, emulator, cases, timeout)
        on_result(result)
        results.append(result)
    return results


class _Observer:
    """One test image in one emulator."""

    def __init__(self, folder: Path, package: Package, emulator: Emulator, timeout: float) -> None:
        self._package = package
        self._emulator = emulator
        self._timeout = timeout
        self._image = folder / image_name(package.board, emulator, "test")
        self._tree = open_tree(folder, package, self._image)
        self._bounds = Bounds(self._tree)
        self._symbols = Symbols.of(self._image)
        self._start, self._watched = start_of(package.board.kind), _watched(package, self._symbols)
        # How the test program reaches each; verify checks the header too, a depth of its own.
        self._chains = [
            (f"{package.prefix}_init", name) if name == "colibri_check" else (name,)
            for name in called_functions(package.model, package.prefix)
        ]

    def all(self, cases: Sequence[Case]) -> Observed:
        """One run shows it all: nothing that runs depends on being watched."""
        use = self._run(cases)
        root = self._start.root
        program = ObservedEntry(root, self._bounds.of(root).bytes, self._depth(use.lowest_stack_store, 0))
        seen = {call.start: call for call in use.calls}
        entries = tuple(self._entry(chain, seen) for chain in self._chains)
        return Observed(self._emulator.name, program, entries, self._memory(use), self._weights(use))

    def _entry(self, chain: tuple[str, ...], seen: Mapping[int, CallUse]) -> ObservedEntry:
        name = chain[-1]
        bound = self._bounds.of(name).bytes
        above = depth_of(self._tree, chain, self._start)
        use = seen[self._code(name)[0].low]
        if above is None or not use.times:
            return ObservedEntry(name, bound, None)
        # What the call itself pushed was written by the caller.
        return ObservedEntry(name, bound, max(self._tree.pushed, self._depth(use.lowest_stack_store, above)))

    def _calls(self) -> tuple[WatchedCall, ...]:
        """The program's loop, and the public functions, each as its caller calls it."""
        loop = self._code(self._start.loop)
        callers = {chain[-1]: self._code(chain[-2]) if len(chain) > 1 else loop for chain in self._chains}
        entries = [WatchedCall(self._code(name), callers[name][0].low) for name in callers]
        return (WatchedCall(loop), *entries)

    def _code(self, name: str) -> tuple[AddressRange, ...]:
        address = self._tree.address(name)
        if address is None:
            raise BadInput(f"no function {name}", where=str(self._image), hint="build the package again")
        return tuple(AddressRange(*extent) for extent in self._tree.extents(address))

    def _run(self, cases: Sequence[Case]) -> MemoryUse:
        plugin = memory_check(self._image)
        outcome = run(
            self._image,
            self._package.board,
            self._emulator,
            request=encode_requests([case.request for case in cases]),
            timeout=self._timeout,
            plugin=replace(plugin, watched=self._watched, calls=self._calls(), apart=self._code(_CHECK)[0].low),
        )
        if outcome.exit_code != 0 or outcome.observation is None or outcome.observation.memory is None:
            where = f"{self._package.board.id} on {self._emulator.name}"
            raise EmulatorFailed(f"the test program ended with code {outcome.exit_code}", where=where)
        return outcome.observation.memory

    def _depth(self, lowest: int | None, above: int) -> int:
        """Bytes down to the lowest store from a stack pointer that is ``above`` bytes under the top."""
        return 0 if lowest is None else max(0, self._symbols.values["port_stack_top"] - above - lowest)

    def _memory(self, use: MemoryUse) -> tuple[ObservedBlock, ...]:
        found = []
        for block in self._package.memory.blocks:
            start = self._symbols.values.get(f"{self._package.prefix}_{block.name}")
            if start is not None and (touched := use.touched(start)) is not None:
                found.append(ObservedBlock(block.region, touched.high - start, touched.pages, touched.of_pages))
        return tuple(found)

    def _weights(self, use: MemoryUse) -> ObservedPages | None:
        if not shows_all_accesses(self._package.board):
            return None
        start = self._symbols.values.get(f"{self._package.prefix}_bin")
        touched = use.touched(start) if start is not None else None
        return ObservedPages(touched.pages, touched.of_pages) if touched is not None else None


def _watched(package: Package, symbols: Symbols) -> tuple[AddressRange, ...]:
    """The weights and each block of the model's memory, as far as they are in the image."""
    sizes = {f"{package.prefix}_{block.name}": block.total for block in package.memory.blocks}
    sizes[f"{package.prefix}_bin"] = package.model_bin_bytes
    starts = {name: symbols.values[name] for name in sizes if name in symbols.values}
    return tuple(AddressRange(start, start + sizes[name]) for name, start in starts.items())
