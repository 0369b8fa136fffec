"""What the emulator sees of stack and working memory: how deep each public function went, how much was touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from colibri.boards.profile import BoardKind, Emulator
from colibri.emulate.plugin import AddressRange, MemoryUse, memory_check
from colibri.emulate.protocol import encode_requests
from colibri.emulate.runner import run
from colibri.emulate.symbols import Symbols
from colibri.errors import DoesNotFit, EmulatorFailed
from colibri.footprint.call_tree import CallTree
from colibri.footprint.stack import Bounds, Observed, ObservedBlock, ObservedEntry, ObservedPages, open_tree
from colibri.package import Package, load_package
from colibri.testing import chosen_emulators, read_cases
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import image_name
from colibri.vectors import Case

_VERIFY = "V"  # the request that reads all of model.bin
_ANSWERS = "answer_requests"  # of the test program under Linux: it begins at the top of the port's own stack


def observable(emulator: Emulator) -> bool:
    """Whether the plugin runs there: in QEMU."""
    return emulator.kind.is_qemu


def observe(
    folder: Path,
    *,
    emulators: tuple[str, ...] = (),
    timeout: float = 120.0,
    entries: bool = True,
    on_result: Callable[[Observed], None] = lambda _: None,
) -> list[Observed]:
    """Run the test program of a package with every store watched.

    Args:
        emulators: names; none means all. Those where nothing can be observed are left out.
        entries: watch each public function too, one more run for each.

    Raises:
        BadInput: not a package, or an image that cannot be read.
        BuildFailed: the images do not build; `DoesNotFit` when the test program does not fit beside the model.
        EmulatorFailed: a hang, a fault, or an exit code that is not 0.
        ToolMissing: no emulator, no disassembler, or no C compiler for the plugin.
    """
    package = load_package(folder)
    cases = read_cases(folder)
    chosen = [one for one in chosen_emulators(package, emulators) if observable(one)]
    if chosen and not build(folder, sorted({image_name(package.board, emulator, "test") for emulator in chosen})):
        raise DoesNotFit("the test image does not fit", where=package.board.id, hint="see `colibri report`")
    results = []
    for emulator in chosen:
        result = _Observer(folder, package, emulator, timeout).all(cases, entries=entries)
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
        self._root, self._watched = _root(package), _watched(package, self._symbols)

    def all(self, cases: Sequence[Case], *, entries: bool) -> Observed:
        use = self._run(cases)
        program = ObservedEntry(self._root, self._bounds.of(self._root).bytes, self._depth(use, 0))
        found = tuple(self._entry(chain, cases, ops) for chain, ops in self._chains()) if entries else ()
        inference = self._run([case for case in cases if case.op != _VERIFY])
        return Observed(self._emulator.name, program, found, self._memory(inference), self._weights(inference))

    def _chains(self) -> list[tuple[tuple[str, ...], str]]:
        """How the test program reaches each public function, and the requests that make it do so."""
        p = self._package.prefix
        chains = [
            (("colibri_verify",), _VERIFY),
            ((f"{p}_init",), "I"),
            ((f"{p}_init", "colibri_check"), "I"),
            ((f"{p}_used_bytes",), "I"),
        ]
        if self._package.model.kind == "tokens":
            before = "E" if self._package.model.source else ""
            chains += [
                *([((f"{p}_encode",), "IE")] if before else []),
                ((f"{p}_prefill",), f"I{before}PR"),
                ((f"{p}_step",), f"I{before}SR"),
                ((f"{p}_reset",), f"I{before}PR"),
                ((f"{p}_position",), f"I{before}PR"),
            ]
        else:
            chains.append(((f"{p}_forward",), "IF"))
        return [chain for chain in chains if all(self._tree.address(name) is not None for name in chain[0])]

    def _entry(self, chain: tuple[str, ...], cases: Sequence[Case], ops: str) -> ObservedEntry:
        name = chain[-1]
        bound = self._bounds.of(name).bytes
        above = depth_of(self._tree, chain, self._root)
        if above is None:
            return ObservedEntry(name, bound, None)
        use = self._run([case for case in cases if case.op in ops], self._extents(name))
        # What the call pushed was written by the caller, which is not looked at; to return it is read.
        pushed = self._tree.pushed if use.loads else 0
        return ObservedEntry(name, bound, max(pushed, self._depth(use, above)))

    def _extents(self, name: str) -> tuple[AddressRange, ...]:
        """The code of a function and of all that it calls."""
        pending, seen = [self._tree.address(name)], set[int]()
        while pending:
            address = pending.pop()
            if address is not None and address not in seen:
                seen.add(address)
                pending += [call.target for call in self._tree.function(address).calls]
        return tuple(AddressRange(*extent) for address in sorted(seen) for extent in self._tree.extents(address))

    def _run(self, cases: Sequence[Case], within: tuple[AddressRange, ...] = ()) -> MemoryUse:
        plugin = replace(memory_check(self._image), watched=self._watched)
        outcome = run(
            self._image,
            self._package.board,
            self._emulator,
            request=encode_requests([case.request for case in cases]),
            timeout=self._timeout,
            plugin=replace(plugin, within=within) if within else plugin,
        )
        if outcome.exit_code != 0 or outcome.observation is None or outcome.observation.memory is None:
            where = f"{self._package.board.id} on {self._emulator.name}"
            raise EmulatorFailed(f"the test program ended with code {outcome.exit_code}", where=where)
        return outcome.observation.memory

    def _depth(self, use: MemoryUse, above: int) -> int:
        """Bytes down to the lowest store from a stack pointer that is ``above`` bytes under the top."""
        if use.lowest_stack_store is None:
            return 0
        return max(0, self._symbols.values["port_stack_top"] - above - use.lowest_stack_store)

    def _memory(self, use: MemoryUse) -> tuple[ObservedBlock, ...]:
        found = []
        for block in self._package.memory.blocks:
            start = self._symbols.values.get(f"{self._package.prefix}_{block.name}")
            if start is not None and (touched := use.touched(start)) is not None:
                found.append(ObservedBlock(block.region, touched.high - start, touched.pages, touched.of_pages))
        return tuple(found)

    def _weights(self, use: MemoryUse) -> ObservedPages | None:
        start = self._symbols.values.get(f"{self._package.prefix}_bin")
        touched = use.touched(start) if start is not None else None
        return ObservedPages(touched.pages, touched.of_pages) if touched is not None else None


def _root(package: Package) -> str:
    """The function that begins with an empty stack."""
    return "port_start" if package.board.kind is BoardKind.BARE else _ANSWERS


def _watched(package: Package, symbols: Symbols) -> tuple[AddressRange, ...]:
    """The weights and each block of the model's memory, as far as they are in the image."""
    sizes = {f"{package.prefix}_{block.name}": block.total for block in package.memory.blocks}
    sizes[f"{package.prefix}_bin"] = package.model_bin_bytes
    starts = {name: symbols.values[name] for name in sizes if name in symbols.values}
    return tuple(AddressRange(start, start + sizes[name]) for name, start in starts.items())


def depth_of(tree: CallTree, chain: tuple[str, ...], root: str) -> int | None:
    """Bytes of stack in use when the last function of a chain is called, without what the call itself pushes.

    Args:
        chain: functions that call each other. The program's loop calls the first: ``main``, or the root under Linux.
        root: begins with an empty stack.

    Returns:
        None when a function of the chain is called with different depths, or not at all.
    """
    depth, caller = (0, tree.address(root)) if root == _ANSWERS else (_start_depth(tree), tree.address("main"))
    for name in chain:
        target = tree.address(name)
        if depth is None or caller is None or target is None:
            return None
        depths = {call.depth for call in tree.function(caller).calls if call.target == target}
        if len(depths) != 1:
            return None
        depth, caller = depth + depths.pop(), target
    return depth


def _start_depth(tree: CallTree) -> int | None:
    """Stack in use when ``main`` begins: of the start-up code, which calls it directly or through one function."""
    start, main = tree.address("port_start"), tree.address("main")
    depths: set[int] = set()
    for first in tree.function(start).calls if start is not None else ():
        if first.target == main:
            depths.add(first.depth)
        else:
            calls = tree.function(first.target).calls
            depths |= {first.depth + second.depth for second in calls if second.target == main}
    return depths.pop() if len(depths) == 1 else None
