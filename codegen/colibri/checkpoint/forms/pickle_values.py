"""A pickle read as data: a small machine of our own, which has no way to call anything.

It knows the instructions that PyTorch's files have. A global is a name, and what a pickle asks to be made of it is made
by a table of the caller; any other name stops the reading. Source of the instructions: CPython's `Lib/pickletools.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from colibri.errors import BadInput, shown

_MOST_STEPS = 1_000_000  # each makes one small object at most; a tensor takes about 25
_MOST_DEEP = 64  # marks that are open at once
_LONGEST_NUMBER = 8  # bytes


@dataclass(frozen=True)
class Global:
    """A name that the pickle refers to: never looked up."""

    name: str


Make = Callable[[tuple[Any, ...]], Any]


class _Mark:
    """Where a list of arguments begins."""


_MARK = _Mark()


def read_pickle(raw: bytes, makers: Mapping[str, Make | None], persistent: Make, where: str) -> Any:
    """Return the value of a pickle: None, bool, int, float, str, bytes, list, tuple, dict, set, and what makers make.

    Args:
        raw: the pickle.
        makers: what is made of a global's arguments, by its name; None: it may be named, but not called.
        persistent: makes the value of a persistent id.
        where: file that errors name.

    Raises:
        BadInput: another global, an instruction that PyTorch does not use, or a damaged pickle.
    """
    try:
        return _Machine(raw, makers, persistent, where).run()
    except (struct.error, IndexError, ValueError, TypeError, KeyError, OverflowError):
        raise BadInput("its pickle is cut off or damaged", where=where, hint="download the file again") from None


class _Machine:
    def __init__(self, raw: bytes, makers: Mapping[str, Make | None], persistent: Make, where: str) -> None:
        self.raw = raw
        self.at = 0
        self.makers = makers
        self.persistent = persistent
        self.where = where
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        for _ in range(_MOST_STEPS):
            code = self.take(1)[0]
            if code == 0x2E:  # STOP
                return self.stack.pop()
            step = _STEPS.get(code)
            if step is None:
                what = f"its pickle has the instruction 0x{code:02x}, which PyTorch's own files have not"
                raise BadInput(what, where=self.where, hint=CONVERT)
            step(self)
        raise BadInput(f"its pickle has more than {_MOST_STEPS} instructions", where=self.where, hint=CONVERT)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.raw):
            raise IndexError
        part = self.raw[self.at : end]
        self.at = end
        return part

    def number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def line(self) -> str:
        end = self.raw.index(b"\n", self.at)
        text = self.raw[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, kind: type | tuple[type, ...] = object) -> Any:
        value = self.stack.pop()
        if not isinstance(value, kind) or value is _MARK:
            raise TypeError
        return value

    def mark(self) -> None:
        if len(self.marks) >= _MOST_DEEP:
            raise BadInput("its pickle is nested too deeply", where=self.where)
        self.marks.append(len(self.stack))
        self.push(_MARK)

    def since_mark(self) -> list[Any]:
        begin = self.marks.pop()
        values = self.stack[begin + 1 :]
        del self.stack[begin:]
        return values

    def tuple_of(self, count: int) -> None:
        values = tuple(self.pop() for _ in range(count))
        self.push(values[::-1])

    def put(self, place: int) -> None:
        if self.stack[-1] is _MARK:
            raise TypeError
        self.memo[place] = self.stack[-1]

    def set_items(self, pairs: list[Any]) -> None:
        table = self.stack[-1]
        if not isinstance(table, dict) or len(pairs) % 2:
            raise TypeError
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise TypeError  # the hash of other keys may nest without end
            table[key] = value

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError
        target.extend(values)

    def add_global(self, name: str) -> None:
        if name not in self.makers:
            raise BadInput(
                f"its pickle asks for '{shown(name)}', which is not a part of weights; nothing of it was run",
                where=self.where,
                hint=CONVERT,
            )
        self.push(Global(name))

    def stack_global(self) -> None:
        name, module = self.pop(str), self.pop(str)
        self.add_global(f"{module}.{name}")

    def reduce(self) -> None:
        arguments, called = self.pop(tuple), self.pop(Global)
        make = self.makers[called.name]
        if make is None:
            raise BadInput(f"its pickle calls '{shown(called.name)}'", where=self.where, hint=CONVERT)
        self.push(make(arguments))

    def build(self) -> None:
        """Attributes of a dict, such as the versions that PyTorch keeps of modules, are no weights."""
        self.pop(dict)
        if not isinstance(self.stack[-1], dict):
            raise TypeError

    def long(self, kind: str) -> None:
        count = self.number(kind)
        if count > _LONGEST_NUMBER:
            raise ValueError
        self.push(int.from_bytes(self.take(count), "little", signed=True))

    def text(self, kind: str) -> None:
        self.push(self.take(self.number(kind)).decode("utf-8", errors="surrogatepass"))


CONVERT = (
    'convert it where you trust it: python -c "import sys, torch, safetensors.torch as s; '
    "s.save_file({k: v.clone().contiguous() for k, v in torch.load(sys.argv[1]).items()}, 'model.safetensors')\" FILE"
)

_STEPS: dict[int, Callable[[_Machine], Any]] = {
    0x80: lambda m: m.take(1),  # PROTO
    0x95: lambda m: m.take(8),  # FRAME
    ord("}"): lambda m: m.push({}),
    ord("]"): lambda m: m.push([]),
    ord(")"): lambda m: m.push(()),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    0x8F: lambda m: m.push([]),  # EMPTY_SET, as a list: nothing is looked up in it
    ord("("): lambda m: m.mark(),
    ord("0"): lambda m: m.pop(),
    ord("q"): lambda m: m.put(m.number("B")),
    ord("r"): lambda m: m.put(m.number("I")),
    0x94: lambda m: m.put(len(m.memo)),  # MEMOIZE
    ord("h"): lambda m: m.push(m.memo[m.number("B")]),
    ord("j"): lambda m: m.push(m.memo[m.number("I")]),
    ord("K"): lambda m: m.push(m.number("B")),
    ord("M"): lambda m: m.push(m.number("H")),
    ord("J"): lambda m: m.push(m.number("i")),
    0x8A: lambda m: m.long("B"),
    ord("G"): lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    ord("X"): lambda m: m.text("I"),
    0x8C: lambda m: m.text("B"),
    0x8D: lambda m: m.text("Q"),
    ord("C"): lambda m: m.push(m.take(m.number("B"))),
    ord("B"): lambda m: m.push(m.take(m.number("I"))),
    ord("t"): lambda m: m.push(tuple(m.since_mark())),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("s"): lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    ord("u"): lambda m: m.set_items(m.since_mark()),
    ord("a"): lambda m: m.extend([m.pop()]),
    ord("e"): lambda m: m.extend(m.since_mark()),
    0x90: lambda m: m.extend(m.since_mark()),  # ADDITEMS
    ord("c"): lambda m: m.add_global(f"{m.line()}.{m.line()}"),
    0x93: lambda m: m.stack_global(),
    ord("R"): lambda m: m.reduce(),
    ord("b"): lambda m: m.build(),
    ord("Q"): lambda m: m.push(m.persistent(m.pop(tuple))),
}
