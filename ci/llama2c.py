"""llama2.c as a peer of ci/bench: its forward(), compiled here, and a dense model that reads as much."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from bench_models import ROOT, Model, run

# What its own README recommends for speed, and the same instruction set as Colibri's.
_FLAGS = ("-Ofast", "-march=x86-64-v3", "-w", "-DTESTING")


def compiled(folder: Path, work: Path) -> Path:
    """The program, from a checkout of llama2.c."""
    program = work / "llama2c"
    define = f'-DRUN_C="{(folder / "run.c").absolute()}"'
    run(["gcc", *_FLAGS, define, str(ROOT / "ci/bench_llama2c.c"), "-lm", "-o", str(program)])
    return program


def write_dense(model: Model, out: Path) -> int:
    """Write a checkpoint in llama2.c's first form, of random weights, as wide as the chosen experts together.

    Returns:
        The bytes of weights that a token reads.
    """
    sizes = model.sizes
    dim, vocab, layers, context = sizes["hidden"], sizes["vocab"], sizes["layers"], sizes["context"]
    hidden = model.top_k * sizes["intermediate"]
    head = dim // sizes["heads"]
    kv = sizes["kv_heads"] * head
    matrices = layers * (2 * dim * dim + 2 * kv * dim + 3 * dim * hidden)
    norms = (2 * layers + 1) * dim
    header = struct.pack("<7i", dim, hidden, layers, sizes["heads"], sizes["kv_heads"], -vocab, context)
    random = np.random.Generator(np.random.PCG64(1))
    count = 2 * vocab * dim + matrices + norms + context * head  # the last: factors of rope, which it skips
    out.write_bytes(header + (0.05 * random.standard_normal(count)).astype("<f4").tobytes())
    return 4 * (vocab * dim + matrices + norms)
