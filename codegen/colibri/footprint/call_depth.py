"""How much of the stack is in use where the test program calls a public function."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.boards.profile import BoardKind
from colibri.footprint.stack import Tree


@dataclass(frozen=True)
class Start:
    """Where a test program begins.

    Attributes:
        root: the function that begins with an empty stack; under Windows one that begins with more in use.
        loop: the function that answers requests.
    """

    root: str
    loop: str


_STARTS = {
    BoardKind.BARE: Start("port_start", "main"),
    BoardKind.LINUX: Start("answer_requests", "answer_requests"),  # on the port's own stack
    BoardKind.WINDOWS: Start("main", "main"),
    BoardKind.WASM: Start("_start", "port_main"),
}


def start_of(kind: BoardKind) -> Start:
    """Of the test program of a board."""
    return _STARTS[kind]


def depth_of(tree: Tree, chain: tuple[str, ...], start: Start) -> int | None:
    """Bytes of stack in use when the last function of a chain is called, without what the call itself pushes.

    Args:
        chain: functions that call each other; the program's loop calls the first.

    Returns:
        None when a function of the chain is called with different depths, or not at all.
    """
    depth, caller = _loop_depth(tree, start), tree.address(start.loop)
    for name in chain:
        target = tree.address(name)
        if depth is None or caller is None or target is None:
            return None
        depths = {call.depth for call in tree.function(caller).calls if call.target == target}
        if len(depths) != 1:
            return None
        depth, caller = depth + depths.pop(), target
    return depth


def _loop_depth(tree: Tree, start: Start) -> int | None:
    """Stack in use when the loop begins; the start-up code calls it directly or through one function."""
    if start.root == start.loop:
        return 0
    root, loop = tree.address(start.root), tree.address(start.loop)
    depths: set[int] = set()
    for first in tree.function(root).calls if root is not None else ():
        if first.target == loop:
            depths.add(first.depth)
        else:
            calls = tree.function(first.target).calls
            depths |= {first.depth + second.depth for second in calls if second.target == loop}
    return depths.pop() if len(depths) == 1 else None
