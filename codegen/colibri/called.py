"""The public functions that the test program calls, and where it finds out itself how deep they go into the stack."""

from __future__ import annotations

from colibri.boards.profile import Board, BoardKind, Emulator
from colibri.package import ModelFacts


def called_functions(model: ModelFacts, prefix: str) -> tuple[str, ...]:
    """Names in C, in the order of `app/test.c`: it answers with their depths in this order.

    Args:
        prefix: of the model.
    """
    encode = ["encode"] if model.source else []
    names = [*encode, "prefill", "step", "reset", "position"] if model.kind == "tokens" else ["forward"]
    own = [f"{prefix}_{name}" for name in ("used_bytes", *names)]
    return ("colibri_verify", f"{prefix}_init", "colibri_check", *own)


def paints(board: Board) -> bool:
    """Whether the board's test program has `runtime_c/ports/paint.h`, which knows the processor."""
    if board.kind in (BoardKind.LINUX, BoardKind.WINDOWS):
        return board.cpu.arch == "x86_64"
    return board.kind is BoardKind.WASM


def shows_all_accesses(board: Board) -> bool:
    """Whether a plugin sees all loads and stores of the model: QEMU has functions of its own for those of SVE."""
    return "sve" not in board.kernels


def observable(board: Board, emulator: Emulator) -> bool:
    """Whether a run shows how deep each function went: to the plugin in QEMU, or to a test program that paints."""
    return emulator.kind.is_qemu or paints(board)
