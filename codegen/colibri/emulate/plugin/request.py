"""What a run asks of the plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from colibri.emulate.symbols import Symbols
from colibri.errors import BadInput


@dataclass(frozen=True, order=True)
class AddressRange:
    """Addresses from ``low`` up to, not including, ``high``."""

    low: int
    high: int

    def __str__(self) -> str:
        """As the plugin takes it: ``LOW-HIGH``, hexadecimal."""
        return f"{self.low:x}-{self.high:x}"


@dataclass(frozen=True)
class WatchedCall:
    """A function whose use of the stack is noted while another calls it.

    Attributes:
        code: where its instructions are; it starts where the first of these does.
        caller: start of the other, whose code must be named too; 0 for none, then nothing is noted.
    """

    code: tuple[AddressRange, ...]
    caller: int = 0

    @property
    def start(self) -> int:
        """Address of its first instruction."""
        return self.code[0].low


_BARE_START = "port_start"  # where an image begins that brings its own start-up
_BLOCKS = ".colibri."  # prefix of the sections of the model's memory
_LAST_ADDRESS = (1 << 64) - 1
_SYSTEM_CONTROL_SPACE = AddressRange(0xE000E000, 0xE000F000)


@dataclass(frozen=True)
class Plugin:
    """What to observe. Executions of every instruction are always counted, at hardly any cost.

    Counts of a whole Linux program include the start-up of its C library, which depends on the environment:
    compare such programs per function, or between marks with ``within``.

    Attributes:
        check: look at each load and store (some four times slower).
        within: instructions that the check looks at and that marks count; empty means all.
        marks: addresses of instructions; each execution notes how many instructions of ``within`` ran so far.
            Take the start of a function that is called, e.g. once per token.
        snapshots: starts of functions; each execution keeps a copy of all counters, some 20 KB.
        read_only: memory that may be read; with ``read_write``, everything else is a finding. Both empty:
            not checked.
        read_write: memory that may be read and written.
        stack: where the lowest written address is noted.
        watched: where the lowest and highest touched addresses, and the pages, are noted; not overlapping.
        calls: functions of which the check notes the lowest address that they and all that they call write in
            ``stack``.
        apart: start of one of ``calls`` during which nothing is noted of ``watched``; 0 for none.
        counted: memory whose loads and stores the check counts apart; ascending, not overlapping.
        alignment: bytes; an access of this size or wider must be aligned to it, a narrower one to its size.
    """

    check: bool = False
    within: tuple[AddressRange, ...] = ()
    marks: tuple[int, ...] = ()
    snapshots: tuple[int, ...] = ()
    read_only: tuple[AddressRange, ...] = ()
    read_write: tuple[AddressRange, ...] = ()
    stack: AddressRange | None = None
    watched: tuple[AddressRange, ...] = ()
    calls: tuple[WatchedCall, ...] = ()
    apart: int = 0
    counted: tuple[AddressRange, ...] = ()
    alignment: int = 4

    def option(self, plugin: Path, out: Path) -> str:
        """The value of QEMU's ``-plugin``: the shared object and its arguments, results in ``out``."""
        arguments = [f"out={_quoted(out)}", f"check={int(self.check)}", f"align={self.alignment:x}"]
        arguments += [f"within={part}" for part in merged(self.within)]
        arguments += [f"mark={address:x}" for address in self.marks]
        arguments += [f"snap={address:x}" for address in self.snapshots]
        arguments += [f"ro={part}" for part in merged(self.read_only)]
        arguments += [f"rw={part}" for part in merged(self.read_write)]
        arguments += [f"stack={self.stack}"] if self.stack else []
        arguments += [f"watch={part}" for part in self.watched]
        for call in self.calls:
            arguments += [f"call={call.start:x}-{call.caller:x}", *(f"code={part}" for part in call.code)]
        arguments += [f"apart={self.apart:x}"] if self.apart else []
        arguments += [f"count={part}" for part in self.counted]
        return ",".join([f"file={_quoted(plugin)}", *arguments])


def _quoted(path: Path) -> str:
    """QEMU's way to say that a comma is not the end."""
    return str(path).replace(",", ",,")


def merged(ranges: tuple[AddressRange, ...]) -> list[AddressRange]:
    """The same addresses in as few ranges as possible, ascending."""
    result: list[AddressRange] = []
    for part in sorted(ranges):
        if result and part.low <= result[-1].high:
            result[-1] = AddressRange(result[-1].low, max(result[-1].high, part.high))
        else:
            result.append(part)
    return result


def memory_check(image: Path, functions: Iterable[str] = (), objects: Mapping[str, int] | None = None) -> Plugin:
    """Return a plugin that checks the accesses of an image.

    A bare-metal image may touch its own segments and nothing else (the copy of ``.data`` in flash included, and
    on Arm the system control space); its stack and the model's memory are watched. Of a Linux program, whose C library
    has its own ways, only the given functions are looked at. They may touch ``objects``, constants, the stack of a test
    program, and what is not the image's, such as any other stack.

    Args:
        functions: names to look at; none means all code of the image.
        objects: bytes of the variables that a Linux program's functions may touch; None means all.

    Raises:
        BadInput: not an ELF file, or it has no such function.
    """
    from elftools.elf.constants import P_FLAGS
    from elftools.elf.elffile import ELFFile

    symbols = Symbols.of(image)
    within: list[AddressRange] = []
    read_only: list[AddressRange] = []
    read_write: list[AddressRange] = []
    watched: list[AddressRange] = []
    with image.open("rb") as file:
        elf = ELFFile(file)
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_GNU_RELRO":  # of a Linux program: constants that hold addresses
                read_only.append(_sized(segment["p_vaddr"], segment["p_memsz"]))
            if segment["p_type"] != "PT_LOAD" or not segment["p_memsz"]:
                continue
            occupied = _sized(segment["p_vaddr"], segment["p_memsz"])
            copied = segment["p_vaddr"] != segment["p_paddr"]  # the start-up writes it, even where it is code
            (read_write if copied or segment["p_flags"] & P_FLAGS.PF_W else read_only).append(occupied)
            if segment["p_flags"] & P_FLAGS.PF_X:
                within.append(occupied)
            if segment["p_filesz"]:
                read_only.append(_sized(segment["p_paddr"], segment["p_filesz"]))
        if elf["e_machine"] == "EM_ARM" and _BARE_START in symbols.values:
            read_write.append(_SYSTEM_CONTROL_SPACE)
        watched += [
            _sized(section["sh_addr"], section["sh_size"])
            for section in elf.iter_sections()
            if section.name.startswith(_BLOCKS) and section["sh_size"]
        ]
    stack = _stack(symbols)
    try:
        within = [AddressRange(*symbols.range_of(name)) for name in functions] or within
    except KeyError as error:
        raise BadInput(f"no function {error}", where=str(image)) from None
    if _BARE_START not in symbols.values:
        if objects is None:
            return Plugin(check=True, within=tuple(within), stack=stack, watched=tuple(watched))
        image_end = max(part.high for part in (*read_only, *read_write))
        touched = [_sized(symbols.values[name], size) for name, size in objects.items() if name in symbols.values]
        elsewhere = [
            AddressRange(0, min(part.low for part in (*read_only, *read_write))),
            AddressRange(image_end, _LAST_ADDRESS),
        ]
        return Plugin(
            check=True,
            within=tuple(within),
            read_only=tuple(read_only),
            read_write=(*touched, *elsewhere, *([stack] if stack else [])),
            stack=stack,
            watched=tuple(watched),
        )
    return Plugin(
        check=True,
        within=tuple(within),
        read_only=tuple(read_only),
        read_write=tuple(read_write),
        stack=stack,
        watched=tuple(watched),
    )


def _stack(symbols: Symbols) -> AddressRange | None:
    """The stack of a bare-metal image, or that on which a test program answers under Linux."""
    limit, top = (symbols.values.get(name) for name in ("port_stack_limit", "port_stack_top"))
    return AddressRange(limit, top) if limit is not None and top is not None else None


def _sized(start: int, size: int) -> AddressRange:
    return AddressRange(start, start + size)
