"""How deep the machine code of a function moves the stack pointer, and what it calls from where."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from colibri.footprint.stack_effects import Decode, Effect, Flow, Instruction, unread

# Each visit is with a deeper stack than the one before: code that is met so often pushes in a loop.
_MOST_VISITS = 50


@dataclass(frozen=True)
class Call:
    """A call, or a jump that never comes back.

    Attributes:
        target: first address of the callee.
        depth: bytes of the caller's that still lie on the stack when the callee begins.
    """

    target: int
    depth: int


@dataclass(frozen=True)
class Code:
    """What the instructions of a function do with the stack.

    Attributes:
        depth: most bytes below the stack pointer that it began with (on x86-64 with its return address).
        calls: every direct call, and every jump to another function.
        indirect: addresses of calls through a pointer.
        unsteady: instruction that moves the stack pointer by what only the run knows; empty when there is none. Then
            ``depth`` and the depths of calls are too small.
        switches: whether it sets the stack pointer to an address, as start-up code does.
    """

    depth: int
    calls: tuple[Call, ...]
    indirect: tuple[int, ...] = ()
    unsteady: str = ""
    switches: bool = False


@dataclass
class _Walk:
    """State of one walk over a function."""

    depths: dict[int, int] = field(default_factory=dict)
    visits: dict[int, int] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)
    indirect: set[int] = field(default_factory=set)
    tables: dict[int, int] = field(default_factory=dict)  # a computed jump's address to its depth
    deepest: int = 0
    unsteady: str = ""
    switches: bool = False


class MachineCode:
    """The instructions of an image.

    Args:
        instructions: of the whole image, ascending.
        functions: (start, size, name) of every function, ascending; hand-written ones may have no size.
        decode: of the processor.
        pushed: bytes that a call itself pushes.
    """

    def __init__(
        self, instructions: list[Instruction], functions: Sequence[tuple[int, int, str]], decode: Decode, pushed: int
    ) -> None:
        self._all = instructions
        self._index = {one.address: at for at, one in enumerate(instructions)}
        # A cold part is entered in the middle of its function's work: it is not a function of its own.
        self._starts = {start for start, _, name in functions if not name.endswith(".cold")}
        self._bounds = sorted({start for start, _, _ in functions})
        self._sizes = {start: size for start, size, _ in functions}
        self._decode: Decode = lambda one: unread(one) or decode(one)
        self._pushed = pushed

    def read(self, start: int) -> Code:
        """Follow every path through the function that starts at an address.

        Paths that meet go on with the deeper stack. A computed jump is a table of the function's own cases when code
        of the function is left that nothing else reaches, and else a call through a pointer.
        """
        if start not in self._index:
            return Code(0, (), unsteady="no instruction that can be read")
        walk = _Walk(deepest=self._pushed)
        self._follow(walk, start, self._pushed, start)
        cases: set[int] = set()
        while walk.tables:
            depth = max(walk.tables.values())
            left = self._unreached(walk, start)
            if left is None:
                if not cases:
                    walk.indirect |= set(walk.tables)
                break
            cases.add(left)
            self._follow(walk, left, depth, start)
        calls = tuple(Call(target, depth) for target, depth in sorted(walk.calls.items()))
        return Code(walk.deepest, calls, tuple(sorted(walk.indirect)), walk.unsteady, walk.switches)

    def _unreached(self, walk: _Walk, start: int) -> int | None:
        """The function's first instruction that nothing has led to."""
        end = self.end(start)
        at = self._index.get(start, len(self._all))
        while at < len(self._all) and self._all[at].address < end:
            one = self._all[at]
            if one.address not in walk.depths and not self._decode(one).padding:
                return one.address
            at += 1
        return None

    def end(self, address: int) -> int:
        """Where the function that an address lies in ends: by its size, or else where the next one starts."""
        after = bisect_right(self._bounds, address)
        start = self._bounds[after - 1] if after else address
        following = self._bounds[after] if after < len(self._bounds) else self._all[-1].address + 1
        return start + self._sizes[start] if after and self._sizes[start] else following

    def _follow(self, walk: _Walk, address: int, depth: int, start: int) -> None:
        pending = [(address, depth)]
        while pending:
            address, depth = pending.pop()
            at = self._index.get(address)
            if at is None or walk.depths.get(address, -1) >= depth:
                continue
            walk.depths[address] = depth
            walk.visits[address] = walk.visits.get(address, 0) + 1
            if walk.visits[address] > _MOST_VISITS:
                walk.unsteady = walk.unsteady or f"{self._all[at].text} in a loop"
                continue
            one = self._all[at]
            effect = self._decode(one)
            depth = self._moved(walk, one, effect, depth)
            following = self._all[at + 1].address if at + 1 < len(self._all) else None
            pending += self._successors(walk, one, effect, depth, start, following)

    def _moved(self, walk: _Walk, one: Instruction, effect: Effect, depth: int) -> int:
        if effect.unsteady:
            walk.unsteady = walk.unsteady or one.text
        if effect.switches:
            walk.switches = True
            depth = 0
        depth = max(0, depth + effect.change)
        walk.deepest = max(walk.deepest, depth, depth + effect.reach)
        return depth

    def _successors(
        self, walk: _Walk, one: Instruction, effect: Effect, depth: int, start: int, following: int | None
    ) -> list[tuple[int, int]]:
        flow, target = effect.flow, effect.target
        if flow is Flow.CALL and target is not None and start < target < self.end(start):
            flow = Flow.JUMP  # Armv6-M has no other far enough; what follows may be constants
        after: list[tuple[int, int]] = []
        if following is not None and flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            # Behind the last instruction of a function: a call there never returns, anything else goes on.
            if following in self._starts and flow is not Flow.CALL and not effect.padding:
                self._leave(walk, following, depth)
            elif following not in self._starts and (flow is not Flow.CALL or following < self.end(one.address)):
                after = [(following, depth)]
        if flow is Flow.CALL:
            if target is None:
                walk.indirect.add(one.address)
            else:
                walk.calls[target] = max(depth, walk.calls.get(target, 0))
        elif flow in (Flow.JUMP, Flow.BRANCH):
            if target is None:
                walk.tables[one.address] = depth
            elif (target in self._starts and target != start) or target not in self._index:
                self._leave(walk, target, depth)
            else:
                after.append((target, depth))
        return after

    def _leave(self, walk: _Walk, target: int, depth: int) -> None:
        """A jump to another function, which has the return address of this one."""
        walk.calls[target] = max(depth - self._pushed, walk.calls.get(target, 0))
