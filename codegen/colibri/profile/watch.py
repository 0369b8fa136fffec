"""What to watch in a test image: where an inference begins and ends, its kernels, and its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from colibri.boards.profile import BoardKind
from colibri.emulate.plugin import AddressRange, Plugin, memory_check
from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput
from colibri.package import Package, Section

_ANSWER = "frame_begin"  # of runtime_c/ports/frames.h: the first thing after the model returns
_END_OF_MEMORY = 1 << 63
_NOT_AN_ENTRY = {"part", "cold"}  # compilers cut these off a function: it is not entered there
ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Area:
    """Addresses whose traffic is counted apart.

    Attributes:
        region: of the board, or ``image`` and `ELSEWHERE` under Linux.
        name: what lies there.
        expert: (layer, index) of the expert whose weights these are, else None.
    """

    region: str
    name: str
    range: AddressRange
    expert: tuple[int, int] | None = None


@dataclass(frozen=True)
class Watch:
    """A plugin request, and what its answers mean.

    Attributes:
        entries: address to ``step``, ``prefill``, ``encode`` or ``forward``.
        answer: address of the function with which the test program begins an answer.
        kernels: address to the names of the kernels that begin there; the compiler may have merged equal ones.
        harness: functions of the test program itself, which are not counted.
        areas: as `Plugin.counted`.
    """

    plugin: Plugin
    symbols: Symbols
    entries: dict[int, str]
    answer: int
    kernels: dict[int, frozenset[str]]
    harness: frozenset[str]
    areas: tuple[Area, ...]


def make_watch(folder: Path, package: Package, image: Path, *, memory: bool) -> Watch:
    """Prepare a profile of a built test image.

    Args:
        memory: count loads and stores as well, some four times slower.

    Raises:
        BadInput: the image has no symbols, or is not a test image of the package.
    """
    symbols = Symbols.of(image)
    calls = ["step", "prefill"] if package.model.kind == "tokens" else ["forward"]
    calls += ["encode"] if package.model.source else []
    try:
        entries = {symbols.range_of(f"{package.prefix}_{call}")[0]: call for call in calls}
        answer = symbols.range_of(_ANSWER)[0]
    except KeyError as error:
        raise BadInput(
            f"no function {error} in the test image", where=str(image), hint="build the package again"
        ) from None
    harness = _harness(folder)
    kernels = _kernels(package, symbols)
    plugin = Plugin()
    areas: tuple[Area, ...] = ()
    if memory:
        bare = package.board.kind is BoardKind.BARE
        # Under Linux the C library has memory of its own, so what may be touched is not known.
        plugin = memory_check(image) if bare else Plugin(check=True)
        areas = tuple(sorted(_areas(package, symbols), key=lambda area: area.range))
    plugin = replace(
        plugin,
        within=tuple(_all_but(symbols, harness)),
        marks=tuple(kernels),
        snapshots=(*entries, answer),
        counted=tuple(area.range for area in areas),
    )
    return Watch(plugin, symbols, entries, answer, kernels, harness, areas)


def _harness(folder: Path) -> frozenset[str]:
    objects = sorted((folder / "build").glob("*/app/test.o"))
    if not objects:
        raise BadInput("no objects of the test program", where=str(folder / "build"), hint="build the package again")
    return frozenset(name for path in objects for _, _, name in Symbols.of(path).functions)


def _kernels(package: Package, symbols: Symbols) -> dict[int, frozenset[str]]:
    wanted = {name for op in package.ops for name in op.kernels}
    found: dict[int, frozenset[str]] = {}
    for start, _, name in symbols.functions:
        stem, *clone = name.split(".")
        if stem in wanted and not _NOT_AN_ENTRY & set(clone):
            found[start] = found.get(start, frozenset()) | {stem}
    return found


def _all_but(symbols: Symbols, harness: frozenset[str]) -> list[AddressRange]:
    """Everything except the functions of the test program."""
    ranges, low = [], 0
    for start, size, name in symbols.functions:
        if name in harness:
            if start > low:
                ranges.append(AddressRange(low, start))
            low = max(low, start + size)
    return [*ranges, AddressRange(low, _END_OF_MEMORY)]


def _areas(package: Package, symbols: Symbols) -> list[Area]:
    """Weights (experts apart), states, buffers and stack; then what is left of each region. They do not overlap."""
    found = [*_weights(package, symbols), *_blocks(package, symbols)]
    values = symbols.values
    if "port_stack_limit" in values:
        found.append(Area("", "stack", AddressRange(values["port_stack_limit"], values["port_stack_top"])))
    regions = _regions(package, values)
    if not regions:  # a Linux program: its segments are the only memory with an address of its own
        return [Area("image", area.name, area.range, area.expert) for area in found]
    areas = []
    for region, whole in regions.items():
        inside = sorted(
            (area for area in found if whole.low <= area.range.low < whole.high), key=lambda area: area.range
        )
        areas += [replace(area, region=region) for area in inside]
        low = whole.low
        for area in inside:
            if area.range.low > low:
                areas.append(Area(region, "other", AddressRange(low, area.range.low)))
            low = max(low, area.range.high)
        if low < whole.high:
            areas.append(Area(region, "other", AddressRange(low, whole.high)))
    return areas


def _regions(package: Package, values: dict[str, int]) -> dict[str, AddressRange]:
    """Where the image has the board's regions; one that is not used gives way where an emulator moved another there."""
    found: dict[str, AddressRange] = {}
    for region in sorted(package.board.memory, key=lambda region: not region.holds):
        origin = values.get(f"colibri_region_{region.name}_origin")
        if origin is None or not region.length:
            continue
        whole = AddressRange(origin, origin + region.length)
        if all(whole.high <= other.low or other.high <= whole.low for other in found.values()):
            found[region.name] = whole
    return found


def _weights(package: Package, symbols: Symbols) -> list[Area]:
    """Files of weights: each expert, and the stretches between them."""
    areas: list[Area] = []
    for name, length, sections in package.weight_files():
        start = symbols.values.get(f"{package.prefix}_{name}")
        if start is not None:
            areas += _weight_areas(start, length, sections)
    return areas


def _weight_areas(start: int, length: int, sections: Sequence[Section]) -> list[Area]:
    experts: dict[tuple[int, str], list[int]] = {}
    for section in sections:
        words = section.part.replace("/", " ").split()
        if len(words) == 4 and words[0] == "layer" and words[2] == "expert":
            bounds = experts.setdefault((int(words[1]), words[3]), [section.offset, 0])
            bounds[0] = min(bounds[0], section.offset)
            bounds[1] = max(bounds[1], section.offset + section.bytes)
    areas, at = [], 0
    for (layer, name), (low, high) in sorted(experts.items(), key=lambda item: item[1]):
        if low > at:
            areas.append(Area("", "weights", AddressRange(start + at, start + low)))
        areas.append(Area("", "weights", AddressRange(start + low, start + high), (layer, int(name))))
        at = high
    if at < length:
        areas.append(Area("", "weights", AddressRange(start + at, start + length)))
    return areas


def _blocks(package: Package, symbols: Symbols) -> list[Area]:
    """The caller's memory: states, and what lies before and behind them."""
    areas = []
    for block in package.memory.blocks:
        start = symbols.values.get(f"{package.prefix}_{block.name}")
        if start is None:
            continue
        low, ends = 0, (block.context, block.context + block.states, block.total)
        for name, high in zip(("context", "states", "buffers"), ends, strict=True):
            if high > low:
                areas.append(Area("", name, AddressRange(start + low, start + high)))
            low = high
    return areas
