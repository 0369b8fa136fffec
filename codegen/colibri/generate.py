"""From a checkpoint to a package: the whole way in one function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from colibri import __version__
from colibri.boards.profile import Board, BoardKind, Holds, MemoryKind, for_regions
from colibri.calibrate.find import find_calibration
from colibri.calibrate.fold import folds_of_data
from colibri.calibrate.sequential import quantise_calibrated
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.checkpoint.untrusted import is_there
from colibri.emit.literals import checked_prefix, identifier
from colibri.emit.model_bin import ModelBin, plan_model_bin
from colibri.emit.module import Module, build_module
from colibri.emit.package_text import Contents
from colibri.emit.writer import resolved_output, write_package
from colibri.errors import BadInput, UsageError, printable, shown
from colibri.footprint.code_size import estimate_code, kernel_bytes, room_for_kernels
from colibri.graph.attend_int8 import MOST_POSITIONS, too_long_for_int8
from colibri.graph.graph import Graph, ModelKind, Op, StateType
from colibri.graph.ops import Experts
from colibri.graph.work import work
from colibri.model_facts import model_facts
from colibri.optimise import Optimise
from colibri.options import Options
from colibri.package import SCHEMA, FastCode, HotWeights, OpFact, Package, used_regions
from colibri.passes.estimate import estimate_ops
from colibri.passes.fold import apply_folds, read_folds
from colibri.passes.fold_scales import folds_of_weights
from colibri.passes.grouping import group_experts
from colibri.passes.hot_code import fast_code
from colibri.passes.kernels import KernelSet, call_graph, named_in, reached
from colibri.passes.merge import merge_experts
from colibri.passes.pack import Layouts, plan_layouts
from colibri.passes.pins import Pins, pinned
from colibri.passes.place import names, place_on
from colibri.passes.prune import asked_to_drop, drop_experts, keep_only
from colibri.passes.quantise import quantise_graph
from colibri.passes.share import pays, share_ops
from colibri.passes.spread import hot_weights
from colibri.passes.told import schemes_told
from colibri.paths import data_folder
from colibri.progress import Progress, unseen
from colibri.recipe import recipe_text
from colibri.recipe_file import recipe_bytes, recipe_hash
from colibri.toolchain.compiler import Compiler, standard_compiler
from colibri.vectors import Case, make_vectors, save_vectors

_KERNEL_BYTES = 1024  # where nothing was measured
_OTHER_CODE_BYTES = 8192  # beside the kernels: runtime, port, program, their constants; rounded up


def build_graph(checkpoint: Checkpoint, options: Options, progress: Progress = unseen) -> Graph:
    """Import, prune, fold scales and quantise.

    Raises:
        BadInput: the checkpoint, calibration data, experts to keep that it has not, or a recipe's file that was made
            for another one.
        UsageError: an option of the other kind of model, or experts or matrices named that the checkpoint has not.
    """
    if options.checkpoint and options.checkpoint != checkpoint.fingerprint():
        raise _for_another(checkpoint, options)
    try:
        return _built(checkpoint, options, progress)
    except UsageError as error:
        if not options.file or error.where in ("--batch", "--prefill"):  # of which no file of a recipe speaks
            raise
        said = f"{error.where}: {error.what}" if error.where else error.what
        hint = error.hint or "was it made for another checkpoint?"
        raise BadInput(f"is no recipe for {checkpoint.where}: {said}", where=options.file, hint=hint) from None


def _for_another(checkpoint: Checkpoint, options: Options) -> BadInput:
    """Return (not raise) the error. What may be said of any checkpoint of this form is offered as a word."""
    word = recipe_text(replace(options, drop={}, merges=(), calibration=None))
    hint = f"experts, scales and data in it mean nothing there; for the rest say --recipe {word}"
    return BadInput(f"was made for another checkpoint than {checkpoint.where}", where=options.file, hint=hint)


def _built(checkpoint: Checkpoint, options: Options, progress: Progress) -> Graph:
    graph = import_graph(checkpoint, ImportOptions(options.context, options.kv, options.source))
    asked = options.calibration
    if asked is not None and not options.quantised:
        raise UsageError(f"{options.schemes} rounds nothing", where="--calibrate", hint="ask for another --scheme")
    data = None if asked is None else find_calibration(graph, asked, progress)
    tokens = graph.kind is ModelKind.TOKENS
    if options.batch is not None and tokens:
        raise UsageError("is for sensor models; a token model has --prefill", where="--batch")
    if options.prefill is not None and not tokens:
        raise UsageError("is for token models; a sensor model has --batch", where="--prefill")
    if options.kv is not StateType.F32 and not tokens:
        raise UsageError("is for token models; a sensor model has no key and value states", where="--kv")
    if options.kv is StateType.I8 and too_long_for_int8(graph.states.values()):
        what = f"int8 states hold at most {MOST_POSITIONS:,} positions"
        raise UsageError(what, where="--kv", hint="ask for less with --context, or for --kv f16")
    drops = asked_to_drop(graph, options.drop, _drops_are_in(options))
    drops = asked_to_drop(graph, _both(drops, merge_experts(graph, options.merges, drops)), _drops_are_in(options))
    drop_experts(graph, _both(drops, keep_only(graph, options.keep)))
    if options.folds is not None:
        apply_folds(graph, read_folds(graph, options.folds, options.file or "recipe"))
    elif options.quantised:
        apply_folds(graph, folds_of_weights(graph))
        if data is not None:
            apply_folds(graph, folds_of_data(graph, options.scheme, options.rules, data, progress))
    if asked is None or data is None:
        quantise_graph(graph, options.scheme, options.rules)
    else:
        quantise_calibrated(graph, options.scheme, options.rules, data, asked.rounding, progress)
        graph.calibration = data.packed()
    return graph


def _drops_are_in(options: Options) -> str:
    """Where the user named experts that go."""
    if options.file:
        return "dropped_experts"  # what the file has; its name stands before it
    return f"recipe '{shown(options.word)}'" if options.word else "--drop-expert"


def _both(some: Mapping[int, set[int]], more: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Layer to experts that one or the other names."""
    return {layer: {*some.get(layer, ()), *more.get(layer, ())} for layer in [*some, *more]}


def generate(
    path: Path,
    board: Board,
    options: Options,
    out: Path,
    compiler: Compiler | None = None,
    progress: Progress = unseen,
) -> Package:
    """Write the C package of a checkpoint for a board into the folder ``out``.

    Args:
        compiler: that the build files name; None takes the board's own by its usual names.
        progress: is told how far it is.

    Raises:
        BadInput: the checkpoint cannot be used; the message names the tensor or key.
        UsageError: options that cannot be meant.
    """
    contents = prepare(path, board, options, out, compiler, progress)
    write_package(out, contents, progress)
    return contents.package


def prepare(
    path: Path,
    board: Board,
    options: Options,
    out: Path,
    compiler: Compiler | None = None,
    progress: Progress = unseen,
    *,
    proven: bool = True,
) -> Contents:
    """Everything that goes into the folder ``out``, which is not touched.

    Args:
        proven: whether the reference runs, for the golden vectors; for a package that is only measured it need not.

    Raises:
        BadInput: the checkpoint cannot be used; the message names the tensor or key.
        UsageError: options that cannot be meant.
    """
    checkpoint = Checkpoint.open(path)
    if is_there(path) and path.resolve().is_relative_to(resolved_output(out)):
        raise UsageError("the checkpoint lies in it", where=str(out), hint="choose another folder with -o")
    name = printable(checkpoint.name)
    prefix = identifier(name) if options.prefix is None else checked_prefix(options.prefix)
    graph = build_graph(checkpoint, options, progress)
    tokens = graph.kind is ModelKind.TOKENS
    rows = (options.prefill if tokens else options.batch) or 1
    kernels = KernelSet(board.kernels)
    levels = {level.name: KernelSet(level.kernels) for level in board.levels}
    optimise = options.optimise or Optimise.SPEED
    threads = _threads(graph, board, options)
    if optimise is Optimise.SPEED:
        graph = group_experts(graph, kernels, rows, *levels.values())
        graph = estimate_ops(graph, kernels)
    if threads != 1:
        graph = share_ops(graph, rows)
    layouts = plan_layouts(graph, kernels)
    for level, others in levels.items():
        if plan_layouts(graph, others) != layouts:
            what = f"the kernels of {level} want this model's weights packed in another way"
            raise BadInput(what, where=f"board {board.id}: levels", hint="leave it out, or choose other kernels")
    if tokens and rows > graph.context:
        raise UsageError(f"{rows} is more than the context of {graph.context}", where="--prefill")
    in_ram = [region.name for region in board.memory if region.kind is MemoryKind.RAM]
    wanted = pinned(options.pins.memory, names(graph), in_ram, f"{options.pins.source}: memory")
    placement = place_on(board, graph, rows, layouts, wanted)
    _refuse_beyond_32_bits(placement.memory.total, "memory block", "ask for less with --context")

    recipe = recipe_bytes(graph, options, checkpoint.fingerprint())
    licence = checkpoint.licence()
    origin = checkpoint.origin()
    manifest = make_manifest(graph, name, options, recipe_hash(recipe), licence, origin)
    files = _model_files(graph, layouts, frozenset(), manifest)
    module = build_module(graph, layouts, placement, kernels, files, rows, optimise)
    if board.hot_region or options.pins.weights:
        hot = _hot_weights(graph, layouts, board, module, options.pins)
        files = _model_files(graph, layouts, hot, manifest)
        module = build_module(graph, layouts, placement, kernels, files, rows, optimise)
    for file in files:
        _refuse_beyond_32_bits(file.length, "model.bin", "choose a smaller --scheme or drop experts")
    ops = _ops(graph, module, 1 if tokens else rows)
    fast = _fast_code(board, module, ops, options.pins)
    if fast and placement.memory.in_region(fast.region):
        what = f"kernels and buffers are both to be in {fast.region!r}"
        raise BadInput(what, where=options.pins.source, hint="pin one of them to another region")
    package = Package(
        schema=SCHEMA,
        generator=f"colibri {__version__}",
        name=name,
        prefix=prefix,
        board=for_regions(board, used_regions(board, placement.memory, fast, board.hot_region)),
        scheme=options.schemes,
        schemes=schemes_told(graph),
        optimise=optimise,
        kv=str(options.kv) if tokens else "",
        batch=0 if tokens else rows,
        prefill=rows if tokens else 0,
        context=graph.context,
        model=model_facts(graph),
        abi_hash=files[0].abi_hash.hex(),
        recipe_hash=recipe_hash(recipe),
        model_bin_bytes=files[0].length,
        sections=files[0].sections,
        memory=placement.memory,
        ops=ops,
        fast_code=fast,
        hot_weights=_hot_facts(board, files),
        compiler=compiler or standard_compiler(board),
        warnings=tuple(graph.warnings),
        threads=threads,
    )
    if threads == 1:  # no package with jobs was measured
        package = msgspec.structs.replace(package, code_estimate=estimate_code(module, package))
    modules = {
        level: build_module(graph, layouts, placement, others, files, rows, optimise)
        for level, others in levels.items()
    }
    model_bytes = sum(file.length for file in files)
    memory_bytes = placement.memory.total
    vectors: list[Case] = []
    if proven:
        vectors = make_vectors(graph, rows=rows, model_bytes=model_bytes, memory_bytes=memory_bytes, progress=progress)
    tokenizer = checkpoint.tokenizer() if tokens else None
    proof = save_vectors(vectors)
    return Contents(package, graph, module, modules, files, layouts, recipe, proof, licence, origin, tokenizer)


def _threads(graph: Graph, board: Board, options: Options) -> int:
    """Threads of the package's own programs; 1 for code that knows of none, 0 for as many as the machine has.

    Raises:
        UsageError: threads for a board that has none.
    """
    if board.kind is BoardKind.LINUX and options.optimise is Optimise.SIZE:
        if options.threads not in (None, 1):
            raise UsageError("code for size knows of one alone", where="--threads", hint="leave out --optimise size")
        return 1
    if board.kind is BoardKind.LINUX:
        return options.threads if options.threads is not None else 0 if pays(graph) else 1
    if options.threads not in (None, 1):
        raise UsageError(f"board {board.id} runs no Linux", where="--threads", hint="leave it out")
    return 1


def _model_files(graph: Graph, layouts: Layouts, hot: Collection[str], manifest: bytes) -> list[ModelBin]:
    """model.bin, and hot.bin when there are hot weights. The ABI hash of each knows what the other holds."""
    layout = repr([op.signature() for op in graph.ops])
    if not hot:
        return [plan_model_bin(graph, layouts, manifest, layout)]
    cold = [name for name in graph.weights if name not in hot]
    split = f"{layout} hot {sorted(hot)}"
    return [
        plan_model_bin(graph, layouts, manifest, split, cold),
        plan_model_bin(graph, layouts, manifest, f"{split} here", hot),
    ]


def _hot_weights(graph: Graph, layouts: Layouts, board: Board, module: Module, pins: Pins) -> frozenset[str]:
    """Choose them, with what the code of the model is expected to take."""
    flash = [name for name in (board.hot_region, board.region_for(Holds.WEIGHTS).name) if name]
    wanted = pinned(pins.weights, graph.weights, flash, f"{pins.source}: weights")
    measured = kernel_bytes(module, board)
    known = sum(measured.values()) or _KERNEL_BYTES * len(module.instances)
    return hot_weights(graph, layouts, board, known + _OTHER_CODE_BYTES, wanted)


def _hot_facts(board: Board, files: Sequence[ModelBin]) -> HotWeights | None:
    if len(files) == 1:
        return None
    return HotWeights(board.hot_region, files[1].abi_hash.hex(), files[1].length, files[1].sections)


def _fast_code(board: Board, module: Module, ops: tuple[OpFact, ...], pins: Pins) -> FastCode | None:
    """The runtime functions that a kernel leads to go with it: what the compiler does not inline is its inner loop."""
    graph = call_graph(data_folder("runtime_c") / header for header in module.headers)
    inner = {one.name: reached(graph, named_in("\n".join(one.body))) for one in module.instances}
    steps = [{*called, *(name for kernel in called for name in inner[kernel])} for called in module.kernels()]
    known, spare = room_for_kernels(module, board)
    sizes = {name: known.get(name, 0) for name in [*inner, *graph]}  # runtime functions without a size are inlined
    chosen = fast_code(board, list(zip(ops, steps, strict=True)), sizes, spare, pins)
    if chosen is None:
        return None
    lead = {name for kernel in chosen.functions for name in inner.get(kernel, ())}
    functions = tuple(name for name in chosen.functions if name in inner or name in lead)
    return FastCode(chosen.region, functions) if functions else None


def _refuse_beyond_32_bits(size: int, what: str, hint: str) -> None:
    """Offsets in the generated C are 32 bits wide."""
    if size >= 1 << 32:
        what = f"the {what} would have {size:,} bytes, more than offsets of 32 bits reach"
        raise BadInput(what, where="plan", hint=hint)


def kept_experts(graph: Graph) -> list[list[int]]:
    """Ids of the experts kept, for each layer with experts."""
    return [[expert.id for expert in op.kept] for op in graph.ops if isinstance(op, Experts)]


def make_manifest(
    graph: Graph, name: str, options: Options, recipe: str, licence: str | None, origin: str | None
) -> bytes:
    """The last section of model.bin, which says what the file is; ``recipe`` is its hash."""
    facts: dict[str, object] = {
        "name": name,
        "family": graph.family,
        "scheme": options.schemes,
        "schemes": schemes_told(graph),
        "routing": graph.routing,
        "experts": kept_experts(graph),
        "recipe": recipe,
        "generator": f"colibri {__version__}",
    }
    if licence is not None:
        facts["licence"] = licence
    if origin is not None:
        facts["origin"] = origin
    return msgspec.json.encode(facts)


def _ops(graph: Graph, module: Module, rows: int) -> tuple[OpFact, ...]:
    facts = []
    parts = zip(graph.ops, module.calls(), module.blocks_of_ops(), strict=True)
    for index, (op, kernels, block) in enumerate(parts):
        done = work(graph, op)
        facts.append(
            OpFact(
                name=_name(op),
                layer=-1 if op.layer is None else op.layer,
                kind=type(op).__name__,
                macs=done.macs * rows,
                macs_per_position=done.macs_per_position * rows,
                reach=done.reach,
                kernels=tuple(kernels),
                repeats=op.top_k * rows if isinstance(op, Experts) else 1,
                block=block,
                encoder=index < graph.encoder,
            )
        )
    return tuple(facts)


def _name(op: Op) -> str:
    """Its only weight, or else the buffer that it writes, or the state."""
    names = op.weights() if len(op.weights()) == 1 else {}
    return next(iter([*names.values(), *op.writes(), *op.states().values()]))
