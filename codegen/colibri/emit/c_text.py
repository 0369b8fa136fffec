"""Turn the pieces of a module into the lines that `model.c` shows."""

from __future__ import annotations

from dataclasses import dataclass

from colibri.emit.c_block import Block, BlockFunction
from colibri.emit.c_jobs import names
from colibri.emit.module import Module
from colibri.graph.graph import Graph, ModelKind


@dataclass(frozen=True)
class _FunctionText:
    name: str
    params: str
    lines: list[str]
    doc: str = ""

    @property
    def arguments(self) -> str:
        """The parameters' names."""
        return ", ".join(one.split()[-1].lstrip("*") for one in self.params.split(","))


@dataclass(frozen=True)
class _BlockText:
    name: str
    title: str
    members: list[object]
    rows: list[list[str]]
    functions: list[_FunctionText]
    job: list[_MemberText]


@dataclass(frozen=True)
class _MemberText:
    """A member of what jobs are given; ``type`` ends where the name begins."""

    type: str
    name: str


def model_c_values(module: Module, graph: Graph, prefix: str) -> dict[str, object]:
    """Values of the template that concern the code itself."""
    return {
        "headers": module.headers,
        "instances": module.instances,
        "arenas": module.arenas,
        "blocks": [_block_text(block, module, graph, prefix) for block in module.blocks],
        "programs": [
            *([_encoder(module, graph, prefix)] if graph.encoder else []),
            *(_program(module, graph, rows, prefix) for rows in module.row_counts),
        ],
        "variable_rows": module.variable_rows,
    }


def level_values(module: Module, graph: Graph, prefix: str) -> dict[str, object]:
    """The same for a package with several sets of instructions, whose functions are called from another file."""
    values = model_c_values(module, graph, prefix)
    programs = [_encoder(module, graph, prefix)] if graph.encoder else []
    programs += [_program(module, graph, rows, prefix) for rows in module.row_counts]
    if graph.kind is ModelKind.TOKENS:
        programs.append(_output(prefix))
    return {**values, "programs": programs}


def _output(prefix: str) -> _FunctionText:
    params = f"const struct {prefix}_context *c, float *output, uint32_t last_row"
    line = "output_1(c, &output_table[0], output, last_row);"
    return _FunctionText("output", params, [line], "What is behind the layers, for one row.")


def _title(block: Block) -> str:
    if block.encoder:
        name = block.name.removeprefix("encoder_")
        pass_ = {"input": "before the layers", "output": "behind the layers"}.get(name, "a pass over a layer")
        return f"encoder: {pass_}" + (f" ({block.name})" if name.startswith("layer_") else "")
    if block.name == "input":
        return "before the layers"
    if block.name == "output":
        return "behind the layers"
    return "one layer" if block.name == "layer" else f"one layer of another kind ({block.name})"


def _rows_of(block: Block, module: Module, graph: Graph, count: int) -> str:
    """What the name of a function for so many rows ends with: ``rows`` where it takes their number."""
    last = block.is_output and graph.kind is ModelKind.TOKENS
    return "rows" if module.variable_rows and not last else str(count)


def _block_text(block: Block, module: Module, graph: Graph, prefix: str) -> _BlockText:
    rows = [[_member(name, value) for name, value in row.items()] for row in block.rows_of]
    functions = []
    for count, function in block.functions.items():
        functions += _jobs(function, block, graph, prefix)
        which = _rows_of(block, module, graph, count)
        more = ", uint32_t rows" if which == "rows" else ""
        params = _params(block, graph, prefix) + more
        functions.append(_FunctionText(f"{block.name}_{which}", params, _body(function, block, graph)))
    members: list[object] = list(block.members.values())
    return _BlockText(block.name, _title(block), members, rows, functions, _job_members(block, graph, prefix))


def _job_members(block: Block, graph: Graph, prefix: str) -> list[_MemberText]:
    """What every job of a block is given: what its function is given, and variables that it tells."""
    functions = block.functions.values()
    if not any(function.jobs for function in functions):
        return []
    own = [(f"const struct {prefix}_context *", "c"), (f"const {block.name}_offsets *", "l")]
    told = {name: f"{kind} " for function in functions for name, kind in function.told.items()}
    outside = [*_external(block, graph), *((kind, name) for name, kind in sorted(told.items()))]
    return [_MemberText(kind, name) for kind, name in (*own, *outside)]


def _jobs(function: BlockFunction, block: Block, graph: Graph, prefix: str) -> list[_FunctionText]:
    """The functions that threads run, before the one that hands them out."""
    members = {one.name: one.type for one in _job_members(block, graph, prefix)}
    found = []
    for job in function.jobs:
        own = _prologue(function, job.lines)
        used = names([*own, *job.lines], members)
        given = [f"const {block.name}_job *const job = given;"]
        given += [f"{_constant(members[name])}{name} = job->{name};" for name in members if name in used]
        body = [*given, *own, "", *job.lines]
        found.append(_FunctionText(job.name, "const void *given, uint32_t part, uint32_t parts", body))
    return found


def _constant(kind: str) -> str:
    """The type as that of a constant."""
    return f"{kind}const " if kind.endswith("*") else f"const {kind}"


def _member(name: str, value: int | str | list[int]) -> str:
    text = "{" + ", ".join(str(item) for item in value) + "}" if isinstance(value, list) else str(value)
    return f".{name} = {text}"


def _external(block: Block, graph: Graph) -> list[tuple[str, str]]:
    """Parameters (type and name) for the caller's own buffers and the last row."""
    found: list[tuple[str, str]] = []
    if block.is_input:
        found.append(("const uint32_t *", "tokens") if graph.kind is ModelKind.TOKENS else ("const float *", "input"))
    if block.is_output:
        found.append(("float *", "output"))
        if graph.kind is ModelKind.TOKENS:
            found.append(("uint32_t ", "last_row"))
    return found


def _params(block: Block, graph: Graph, prefix: str) -> str:
    extra = "".join(f", {kind}{name}" for kind, name in _external(block, graph))
    return f"const struct {prefix}_context *c, const {block.name}_offsets *l{extra}"


def _body(function: BlockFunction, block: Block, graph: Graph) -> list[str]:
    lines = _prologue(function, function.lines)
    if function.jobs:
        constant = "" if function.told else "const "
        given = ["c", "l", *(name for _, name in _external(block, graph))]
        lines.append(f"{constant}{block.name}_job job = {{{', '.join(f'.{name} = {name}' for name in given)}}};")
    elif not function.uses_descriptor:
        lines.append("(void)l;")
    return [*lines, *([""] if lines else []), *function.lines]


def _prologue(function: BlockFunction, lines: list[str]) -> list[str]:
    """Declarations of what some statements name."""
    known = {
        **({"w": "const uint8_t *const w = c->model;"} if function.uses_weights else {}),
        **({"position": "const uint32_t position = c->position;"} if function.uses_position else {}),
        **({"source": "const uint32_t source = c->source;"} if function.uses_source else {}),
    }
    used = names(lines, {**known, **function.declarations})
    first = [known[name] for name in known if name in used]
    return [*first, *(function.declarations[name] for name in used if name in function.declarations)]


def _encoder(module: Module, graph: Graph, prefix: str) -> _FunctionText:
    """Call the encoder's blocks in order, each for all rows; the widest first."""
    lines: list[str] = []
    for step in module.steps:
        block = step.block
        if not block.encoder:
            continue
        inner = ["c->position = 0;"]
        extra = "".join(f", {name} + c->position" for _, name in _external(block, graph))
        for rows in module.row_counts:
            room = "c->position < c->source" if rows == 1 else f"c->position + {rows} <= c->source"
            table = f"&{block.name}_table[{step.first if step.count == 1 else 'i'}]"
            if module.variable_rows:
                inner += [
                    "while (c->position < c->source) {",
                    "    const uint32_t left = c->source - c->position;",
                    f"    const uint32_t rows = left < {rows} ? left : {rows};",
                    f"    {block.name}_rows(c, {table}{extra}, rows);",
                    "    c->position += rows;",
                    "}",
                ]
                continue
            inner += [
                f"for (; {room}; c->position += {rows}) {{",
                f"    {block.name}_{rows}(c, {table}{extra});",
                "}",
            ]
        if step.count > 1:
            loop = f"for (uint32_t i = {step.first}; i < {step.first + step.count}; i++) {{"
            inner = [loop, *(f"    {line}" for line in inner), "}"]
        lines += inner
    params = f"struct {prefix}_context *c, const uint32_t *tokens"
    return _FunctionText("encoder", params, lines, "All passes of the encoder, each over the whole source.")


def _program(module: Module, graph: Graph, rows: int, prefix: str) -> _FunctionText:
    """Call the blocks in order; a token model's output block is called apart, for the last row only."""
    tokens = graph.kind is ModelKind.TOKENS
    lines: list[str] = []
    which, more = ("rows", ", rows") if module.variable_rows else (str(rows), "")
    for step in module.steps:
        block = step.block
        if block.encoder or (block.is_output and tokens):
            continue
        extra = "".join(f", {name}" for _, name in _external(block, graph))
        call = f"{block.name}_{which}(c, &{block.name}_table[%s]{extra}{more});"
        if step.count == 1:
            lines.append(call % step.first)
        else:
            lines.append(f"for (uint32_t i = {step.first}; i < {step.first + step.count}; i++) {{")
            lines.append("    " + call % "i")
            lines.append("}")
    outside = ", const uint32_t *tokens" if tokens else ", const float *input, float *output"
    what = f"{rows} token{'s' if rows > 1 else ''}" if tokens else f"{rows} sample{'s' if rows > 1 else ''}"
    if module.variable_rows:
        outside, what = f"{outside}, uint32_t rows", f"1 to {rows} tokens"
    params = f"const struct {prefix}_context *c{outside}"
    return _FunctionText(f"layers_{which}", params, lines, f"All layers for {what}.")
