"""`package.json`: what a generated folder says of itself. Every later stage reads this and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from colibri.boards.profile import Board, Holds
from colibri.checkpoint.untrusted import decoded, is_there, read_bounded
from colibri.errors import BadInput, shown
from colibri.optimise import Optimise
from colibri.toolchain.compiler import Compiler

SCHEMA = 2
FILE_NAME = "package.json"
_MAX_BYTES = 64 << 20


class Section(msgspec.Struct, frozen=True):
    """One run of bytes in `model.bin`.

    Attributes:
        name: e.g. ``layers.2.experts.5.up`` or ``header``.
        part: the row of the report it belongs to, e.g. ``layer 2 / expert 5``.
        offset: bytes from the start of the file.
        bytes: its length, without the padding up to the next section.
    """

    name: str
    part: str
    offset: int
    bytes: int


VIEW_NAMES = ("", "scale", "weight")
TYPE_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "int8": 1, "int16": 2, "int32": 4, "index": 4}


class View(msgspec.Struct, frozen=True):
    """One array of a buffer.

    Attributes:
        name: of `VIEW_NAMES`; empty for the buffer's only or first array.
        type: of `TYPE_BYTES`; ``index`` is an unsigned integer of 32 bits, ``bf16`` the upper half of an fp32.
        shape: rows, and elements in a row where there can be several.
        offset: bytes from the start of the block.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int


class Span(msgspec.Struct, frozen=True):
    """One buffer in a block of the caller's memory.

    Attributes:
        name: of the state or buffer.
        kind: ``context``, ``state`` or ``arena``.
        offset: bytes from the start of the block; arena buffers that do not live together overlap.
        bytes: its length.
        first: index of the first op that uses it (-1 for context and states).
        last: index of the last op that uses it (-1 for context and states).
        heat: bytes moved in it for one token or one call of forward, as far as the shapes tell.
        live: all intervals of op indices, both ends included, in which its bytes matter; empty for context and states.
        views: its arrays; the context has none.
    """

    name: str
    kind: str
    offset: int
    bytes: int
    first: int = -1
    last: int = -1
    heat: int = 0
    live: tuple[tuple[int, int], ...] = ()
    views: tuple[View, ...] = ()


class OpFact(msgspec.Struct, frozen=True):
    """One step of the model; its place in `Package.ops` is the index that spans speak of.

    Attributes:
        name: its only weight, e.g. ``layers.0.q``, or else the buffer or the state that it writes.
        layer: -1 before the first layer and after the last.
        kind: its class in `colibri.graph.ops`.
        macs: multiply-adds in matrix products, of one token or one call of forward.
        macs_per_position: multiply-adds for each position in reach (attention).
        reach: most positions in reach; 0 when there are none.
        kernels: C functions that it calls, in their order, for one token or one call of forward.
        repeats: how often it calls all of them.
        block: C function that it is in, without the number of rows behind it.
        encoder: whether encode runs it: for a token of the source then.
    """

    name: str
    layer: int
    kind: str
    macs: int = 0
    macs_per_position: int = 0
    reach: int = 0
    kernels: tuple[str, ...] = ()
    repeats: int = 1
    block: str = ""
    encoder: bool = False


class Block(msgspec.Struct, frozen=True):
    """One block of the caller's memory: context, states, then the arena. All sizes in bytes.

    Attributes:
        name: in C: ``memory``, or ``memory_REGION`` when there are several.
        region: of the board, where it is meant to be.
        total: of these three.
        bound: most bytes of the arena that are alive at one op: no plan takes less.
        proven: whether no plan of this arena takes less: it meets the bound, or all have been looked at.
    """

    name: str
    region: str
    context: int
    states: int
    arena: int
    total: int
    bound: int
    proven: bool
    spans: tuple[Span, ...]


class Memory(msgspec.Struct, frozen=True):
    """The caller's memory, a block for each region that the plan uses. The context lies in the first.

    Attributes:
        total: bytes of all blocks.
    """

    blocks: tuple[Block, ...]
    total: int

    def in_region(self, region: str) -> Block | None:
        """The block in a region, if there is one."""
        return next((block for block in self.blocks if block.region == region), None)


class FastCode(msgspec.Struct, frozen=True):
    """Kernels that run from RAM: the start-up copies them there, as it does .data.

    Attributes:
        region: of the board.
        functions: of the generated code.
    """

    region: str
    functions: tuple[str, ...]


class Within(msgspec.Struct, frozen=True):
    """How far the prediction may be off, in bytes: from the errors on the models that were measured."""

    code: int
    tables: int
    data: int


class CodeEstimate(msgspec.Struct, frozen=True):
    """What the product's image was expected to take beside weights and memory block, before any compiler ran; bytes.

    Attributes:
        code: instructions, of all owners.
        tables: constants that are not weights.
        data: variables, in RAM.
        kernels: part of ``code``: each kernel, and each runtime function that several share, by C name.
        board: where it was measured what functions take.
        compiler: with which.
        within: how far each may be off; None when the measurement is of another board.
    """

    code: int
    tables: int
    data: int
    kernels: dict[str, int]
    board: str
    compiler: str
    within: Within | None = None


class ModelFacts(msgspec.Struct, frozen=True):
    """What the model is.

    Attributes:
        kind: ``tokens`` (prefill and step) or ``samples`` (forward).
        family: importer that read it.
        parameters: number of weights kept.
        inputs: floats per sample (0 for tokens).
        outputs: floats per sample, or the vocabulary size.
        experts: experts kept, per layer.
        top_k: experts that run, per layer.
        routing: one sentence per layer kind: order of softmax and top-k, renormalisation.
        labels: names of inputs and outputs, when the checkpoint has them.
        source: most tokens that encode takes; 0 without an encoder.
        start: the token that decoding begins with (0 without an encoder).
        classifies: whether a sample's outputs are the scores of classes.
    """

    kind: str
    family: str
    parameters: int
    inputs: int
    outputs: int
    experts: tuple[int, ...]
    top_k: int
    routing: str
    labels: dict[str, tuple[str, ...]] = {}
    source: int = 0
    start: int = 0
    classifies: bool = False


class HotWeights(msgspec.Struct, frozen=True):
    """`hot.bin`: a second file of the form of `model.bin`, with the tensors that are read most for their size.

    Attributes:
        region: of the board, faster than the one of `model.bin`.
        abi_hash: as of `model.bin`, its own.
        bytes: of the file.
        sections: see `Section`.
    """

    region: str
    abi_hash: str
    bytes: int
    sections: tuple[Section, ...]


class Package(msgspec.Struct, frozen=True):
    """The whole of `package.json`; sizes in bytes, file names relative to the folder.

    Attributes:
        scheme: as it was asked for, rules included.
        schemes: selector to scheme of all matrices, as `passes.told` tells them.
        code_estimate: None when nothing similar was measured.
        warnings: what was done to the weights that the user may not want, a line each.
        optimise: what the code is made for.
        compiler: that its build files name; None for the board's own by its usual names.
        threads: that its own programs run the model with; 0 for one on each processor. With 1 the code knows of none.
    """

    schema: int
    generator: str
    name: str
    prefix: str
    board: Board
    scheme: str
    kv: str
    batch: int
    prefill: int
    context: int
    model: ModelFacts
    abi_hash: str
    recipe_hash: str
    model_bin_bytes: int
    sections: tuple[Section, ...]
    memory: Memory
    schemes: dict[str, str] = {}
    optimise: Optimise = Optimise.SPEED
    code_estimate: CodeEstimate | None = None
    ops: tuple[OpFact, ...] = ()
    fast_code: FastCode | None = None
    hot_weights: HotWeights | None = None
    compiler: Compiler | None = None
    warnings: tuple[str, ...] = ()
    threads: int = 1

    def weight_files(self) -> list[tuple[str, int, tuple[Section, ...]]]:
        """Symbol behind the prefix, bytes and sections of each file of weights."""
        hot = self.hot_weights
        return [
            ("bin", self.model_bin_bytes, self.sections),
            *([("hot_bin", hot.bytes, hot.sections)] if hot else []),
        ]

    def overfull(self) -> list[str]:
        """Regions that weights and working memory alone are too large for, as ``flash 1,276,112 of 262,144 bytes``."""
        taken: Counter[str] = Counter()
        for block in self.memory.blocks:
            taken[block.region] += block.total
        if self.board.memory:
            taken[self.board.region_for(Holds.WEIGHTS).name] += self.model_bin_bytes
        if self.hot_weights:
            taken[self.hot_weights.region] += self.hot_weights.bytes
        return [
            f"{region.name} {taken[region.name]:,} of {region.limit:,} bytes"
            for region in self.board.memory
            if 0 < region.limit < taken[region.name]
        ]

    def save(self, folder: Path) -> None:
        """Write ``package.json`` (sorted keys, so that equal packages are equal files)."""
        raw = msgspec.json.encode(self, order="sorted")
        (folder / FILE_NAME).write_bytes(msgspec.json.format(raw, indent=1) + b"\n")


def used_regions(board: Board, memory: Memory, fast_code: FastCode | None, hot: str) -> set[str]:
    """Names of the regions that a package puts something into.

    Args:
        hot: region of the weights in `hot.bin`; empty when there is none.
    """
    fixed = {board.region_for(what).name for what in (Holds.CODE, Holds.WEIGHTS, Holds.DATA, Holds.STACK)}
    named = {hot, fast_code.region if fast_code else ""} - {""}
    return {*fixed, *named, *(block.region for block in memory.blocks)}


class _Version(msgspec.Struct, frozen=True):
    """What every version of the file has."""

    schema: int


def load_package(folder: Path) -> Package:
    """Read ``package.json``.

    Raises:
        BadInput: no such file, not this schema, not of this shape, or with numbers that cannot be meant.
    """
    from colibri.package_check import check_package

    path = folder / FILE_NAME
    if not is_there(path):
        hint = "make one with `colibri build CHECKPOINT --board NAME`"
        raise BadInput("not a Colibri package", where=shown(str(folder), 300), hint=hint)
    where, again = shown(str(path), 300), "generate the package again"
    raw = read_bounded(path, _MAX_BYTES)
    damaged = "package.json is damaged"
    version = decoded(lambda: msgspec.json.decode(raw, type=_Version), what=damaged, where=where, hint=again)
    if version.schema != SCHEMA:
        what = f"package schema {version.schema}, this Colibri reads {SCHEMA}"
        raise BadInput(what, where=where, hint="generate again")
    package = decoded(lambda: msgspec.json.decode(raw, type=Package), what=damaged, where=where, hint=again)
    check_package(package, path)
    return package
