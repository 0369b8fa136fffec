"""What ops write their statements through: `CScope`. `module.py` walks the graph; the template only prints."""

from __future__ import annotations

from collections.abc import Sequence

from colibri.emit.c_batch import linear_batch, linear_chosen
from colibri.emit.c_block import Block, ExpertPart, QuantisedNames, RouteNames, Rows
from colibri.emit.c_instances import Instances
from colibri.emit.c_jobs import ARGUMENTS, PARAMS, Job, part_bounds, part_loop, step_of
from colibri.emit.c_linear import ELEMENT, linear, linear_sums
from colibri.emit.c_shapes import Instance, marked, most
from colibri.emit.literals import float_literal
from colibri.graph.coding import Coding, WeightFormat
from colibri.graph.graph import BufferKind, Graph, Op
from colibri.passes.kernels import Tile
from colibri.passes.pack import Layouts, MatrixLayout, aligned
from colibri.passes.place import Placement, all_buffers


class CScope:
    """What an op sees while it writes the body of its block for calls of ``rows`` rows.

    With ``variable`` these are the most, and their number is a parameter of the block's function.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: Layouts,
        placement: Placement,
        instances: Instances,
        block: Block,
        rows: int,
        *,
        variable: bool = False,
    ) -> None:
        self._rows = rows
        self._variable = variable
        self._graph = graph
        self._layouts = layouts
        self._placement = placement
        self._instances = instances
        self._block = block
        self._function = block.functions[rows]
        self._buffers = all_buffers(graph)
        self._job: Job | None = None
        self.op: Op = block.ops[0]

    def emit(self, job: list[Op]) -> None:
        """Write the statements of the block's next op, or of those that one job does together."""
        self.join()
        for op in job:
            self.op = op
            self._function.calls.append([])
            op.emit(self)

    # ---- text ----

    def line(self, text: str) -> None:
        """A statement; all parts of a job before it have ended."""
        self.join()
        self._function.lines.append(text)

    def share(self, lines: Sequence[str], indent: str = "") -> None:
        """Statements that go into a job if the op is shared: each thread runs them for a part of its own."""
        if not self.op.shared:
            for text in lines:
                self.line(indent + text)
            return
        if self._job is None:
            jobs = self._function.jobs
            self._job = Job(f"{self._block.name}_{self._rows}_job_{len(jobs) + 1}")
            jobs.append(self._job)
            self._function.lines.append(f"{indent}colibri_share(c->team, {self._job.name}, &job);")
        self._job.lines += lines

    def join(self) -> None:
        """What is shared next waits for the job before it."""
        self._job = None

    def tell(self, kind: str, name: str) -> str:
        """A variable of the block's function that its jobs know under the same name; returns the C that sets it."""
        self._function.told[name] = kind
        return f"job.{name} = {name};"

    @property
    def part_params(self) -> str:
        """What a kernel of a shared op takes besides."""
        return PARAMS if self.op.shared else ""

    @property
    def part(self) -> str:
        """What it is given there."""
        return ARGUMENTS if self.op.shared else ""

    def loop_over(self, kind: str, name: str, count: int | str, step: int = 0, unit: int = 0) -> list[str]:
        """Head of a kernel's loop over its outputs: all of them, or this part's if the op is shared.

        Args:
            step: of a loop over tiles; 0 for one at a time.
            unit: parts begin at multiples of it; 0 for those of the step.
        """
        if self.op.shared:
            return part_loop(kind, name, count, step, unit or step or 1)
        return [f"for ({kind} {name} = 0; {name} < {count}; {step_of(name, step)}) {{"]

    def kernel(self, stem: str, *, inner: bool = False) -> None:
        """Include the header of a kernel; an inner one stands before those that call it."""
        self._instances.kernel(stem, inner=inner)

    def instance(self, name: str, doc: str, params: str, body: list[str]) -> str:
        """Make a kernel with constant shapes and return its name. Ops ask in the order in which they call."""
        called = self._instances.add(Instance(name, doc, params, tuple(body)))
        self._function.calls[-1].append(called)
        return called

    def number(self, name: str, value: int, kind: str = "uint32_t") -> str:
        """A number of a kernel's shape, which in code for size may become a parameter of this name and C type."""
        return str(value) if self._instances.generics is None else marked(name, str(value), kind)

    def extent(self, name: str, value: int) -> str:
        """The length of a kernel's own array; in code for size that of the largest shape."""
        return str(value) if self._instances.generics is None else most(name, value)

    def values(self, rows: Rows, width: int, kind: str = "uint32_t") -> str:
        """How many values so many rows have."""
        if self._instances.generics is None:
            return str(rows.count * width)
        value = f"rows * {width}" if self._variable and rows.count > 1 else str(rows.count * width)
        return marked("count", value, kind)

    @property
    def rows(self) -> str:
        """The rows of the call, for comments and names."""
        return self.each.shown

    @property
    def each(self) -> Rows:
        """Loop of a kernel over the rows of the call."""
        return self.loop(kind="uint32_t")

    @property
    def once(self) -> Rows:
        """One row, for a kernel that others call with several."""
        return self._loop(1, "1", "int")

    def loop(self, times: int = 1, kind: str = "int") -> Rows:
        """Loop of a kernel over so many rows for each one of the call, such as its heads.

        Args:
            kind: C type of what is counted, where the number of rows is a parameter.
        """
        count = self._rows * times
        value = ("rows" if times == 1 else f"rows * {times}") if self._variable else str(count)
        return self._loop(count, value, kind)

    def _loop(self, count: int, value: str, kind: str) -> Rows:
        if self._instances.generics is None:
            return Rows(count, value, value if count > 1 else "")
        loops = self._instances.loops or count > 1
        return Rows(count, marked("rows", value), marked("rows", value, kind) if loops else "", kind)

    @property
    def here(self) -> Rows:
        """Loop over the rows of the call in the block's function itself."""
        count = "rows" if self._variable else str(self._rows)
        return Rows(self._rows, count, count if self._variable or self._rows > 1 else "")

    @staticmethod
    def float_literal(value: float) -> str:
        """A C literal of an fp32 constant."""
        return float_literal(value)

    def as_floats(self, pointer: str, offset: int, name: str = "") -> str:
        """Bytes at ``pointer + offset`` seen as fp32.

        Args:
            name: of the parameter that the offset may become.
        """
        return f"colibri_floats({pointer}{self._behind(offset, name)})"

    def as_shorts(self, pointer: str, offset: int, name: str = "") -> str:
        """Bytes at ``pointer + offset`` seen as numbers of 16 bits."""
        return f"colibri_shorts({pointer}{self._behind(offset, name)})"

    def as_values(self, form: WeightFormat, pointer: str, offset: int, name: str = "") -> str:
        """Bytes at ``pointer + offset`` seen as weights of a format of floats."""
        place = self.as_shorts if form is WeightFormat.F16 else self.as_floats
        return place(pointer, offset, name)

    def _behind(self, offset: int, name: str) -> str:
        if not offset:
            return ""
        return f" + {self.number(name, offset, 'int') if name else offset}"

    # ---- operands ----

    def element(self, kind: BufferKind) -> str:
        """C type of an element of a buffer of integers."""
        return ELEMENT[BufferKind.Q16 if kind is BufferKind.Q8 and self._instances.kernels.wide_activations else kind]

    def element_bits(self, kind: BufferKind) -> int:
        """Bits that an element of a quantised buffer takes."""
        return 8 if self.element(kind) == "int8_t" else 16

    def dot_kernel(self, coding: Coding, kind: BufferKind) -> str:
        """Stem of the dot kernel for a coding and the kind of its input."""
        return self._instances.kernels.dot_kernel(coding, kind)

    def tile(self, coding: Coding, kind: BufferKind) -> Tile:
        """What that kernel wants."""
        return self._instances.kernels.tile(coding, kind)

    def floats(self, buffer: str) -> str:
        """C name of a float buffer; the caller's own for the input and the output."""
        if buffer in (Graph.INPUT, Graph.OUTPUT):
            return buffer
        return self._declare(buffer, "float", buffer, "")

    def integers(self, buffer: str) -> str:
        """C name of a buffer of integers without scales."""
        return self._declare(buffer, self.element(self._buffers[buffer].kind), buffer, "")

    def quantised(self, buffer: str) -> QuantisedNames:
        """C names of a quantised buffer."""
        kind = self._buffers[buffer].kind
        integers = self._declare(buffer, self.element(kind), buffer, "")
        return QuantisedNames(
            integers, self._declare(f"{buffer}_scale", "float", buffer, "_SCALE"), self._layouts.strides[buffer]
        )

    def route(self, buffer: str) -> RouteNames:
        """C names of a route."""
        return RouteNames(
            self._declare(f"{buffer}_index", "uint32_t", buffer, ""),
            self._declare(f"{buffer}_weight", "float", buffer, "_WEIGHT"),
        )

    def state(self, slot: str, behind: int = 0) -> str:
        """Pointer to a state, or so many bytes behind its start; its offset is in the descriptor."""
        self._function.uses_descriptor = True
        homes = self._block.homes[slot]
        base = self._placement.memory_in(f"l->{slot}_in" if len(set(homes)) > 1 else homes[0])
        return f"colibri_at({base}, l->{slot}{f' + {behind}' if behind else ''})"

    def rows_int8(self, slot: str, name: str) -> str:
        """Pointers to the elements and the scales of an int8 state."""
        return f"{self.state(slot)}, {self.state(slot, self._graph.states[name].scales_at)}"

    def position(self) -> str:
        """Position of the call's first row."""
        self._function.uses_position = True
        return "position"

    def source(self) -> str:
        """Rows that encode took in."""
        self._function.uses_source = True
        return "source"

    def weight(self, slot: str) -> str:
        """Pointer to a weight; its offset is in the descriptor."""
        return f"{self._file(slot)} + l->{slot}"

    def expert_weights(self, index: str) -> str:
        """Pointer to the weights of the expert with an index."""
        return f"{self._file('experts')} + l->experts[{index}]"

    def _file(self, slot: str) -> str:
        """Pointer to the file of weights that a slot is in."""
        self._function.uses_descriptor = True
        files = set(self._block.files[slot])
        if files == {""}:  # there is only one
            self._function.uses_weights = True
            return "w"
        return f"c->model[l->{slot}_in]" if len(files) > 1 else f"c->model[{files.pop()}]"

    def matrix(self, slot: str) -> MatrixLayout:
        """Layout of a matrix of the op."""
        return self._layouts.matrices[self.op.weights()[slot]]

    def expert(self) -> dict[str, ExpertPart]:
        """Layouts of an expert's matrices, alike for all experts of the op."""
        place, parts = 0, {}
        for slot, name in self.op.experts()[0].items():
            layout = self._layouts.matrices[name]
            parts[slot] = ExpertPart(layout, place)
            place += aligned(layout.bytes)
        return parts

    def _declare(self, name: str, element: str, buffer: str, suffix: str) -> str:
        base = self._placement.memory_in(self._placement.buffers[buffer].block)
        self._function.declarations[name] = (
            f"{element} *const {name} = colibri_at({base}, AT_{buffer.upper()}{suffix});"
        )
        return name

    # ---- kernels that several ops share ----

    def multiply(self, slot: str, x: str, kind: BufferKind, k: int, out: str) -> None:
        """Write ``out[rows, n] = x[rows, k] W[n, k]^T + bias``; x is a buffer of this kind, out of floats."""
        if kind is BufferKind.FLOAT:
            operand, stride = self.floats(x), k
        else:
            q = self.quantised(x)
            operand, stride = f"{q.integers}, {q.scale}", q.stride
        name = self.linear(self.matrix(slot), kind, self.loop(), stride)
        self.share([f"{name}({self.floats(out)}, {self.weight(slot)}, {operand}{self.part});"])

    def linear(self, layout: MatrixLayout, kind: BufferKind, rows: Rows, x_stride: int, unit: int = 0) -> str:
        """Instance of a matrix product; see `c_linear.linear` and `c_batch.linear_batch`, for the unit `loop_over`."""
        if rows.count >= self.inputs(layout, kind) > 1:
            return linear_batch(self, layout, kind, x_stride, rows.count)
        return linear(self, layout, kind, rows, x_stride, unit)

    def linear_sums(self, layout: MatrixLayout, kind: BufferKind) -> str:
        """Instance of the integer sums of a row; see `c_linear.linear_sums`."""
        return linear_sums(self, layout, kind)

    def linear_chosen(self, layout: MatrixLayout, kind: BufferKind, x_stride: int, top_k: int, unit: int = 0) -> str:
        """Instance of a matrix product with some rows; see `c_batch.linear_chosen`."""
        return linear_chosen(self, layout, kind, x_stride, top_k, unit)

    def inputs(self, layout: MatrixLayout, kind: BufferKind) -> int:
        """How many inputs the dot kernel multiplies with a tile at once; in code for size one after the other."""
        return 1 if self._instances.generics else self._instances.kernels.inputs(layout.coding, kind)

    @property
    def whole_rows(self) -> bool:
        """Whether activations and stores of the board's kernels take several values at once."""
        return self._instances.kernels.whole_rows

    def row_scale(self, layout: MatrixLayout) -> str:
        """The rows' scales: fp32, or its upper 16 bits."""
        place = self.as_shorts if layout.coding.format.grouped else self.as_floats
        return place("w", layout.row_scale, "row_scale")

    def whole_tiles(self, layout: MatrixLayout) -> bool:
        """Whether the rows of a matrix fill its tiles; in code for size those of all matrices in its format."""
        alike = [layout] if self._instances.generics is None else self._layouts.matrices.values()
        return all(one.n % one.tile_rows == 0 for one in alike if one.coding == layout.coding)

    def activate(self, function: str, count: str, unit: int = 0) -> str:
        """Instance of an activation over ``count`` values in place; returns its name. For the unit see `loop_over`."""
        self.kernel("float32")
        body = [*self.loop_over("uint32_t", "i", count, unit=unit), f"    x[i] = colibri_{function}(x[i]);", "}"]
        if self.whole_rows:
            body = self._row_of_part(f"colibri_{function}_row", ["x"], count, "", unit)
        params = f"float *x{self.part_params}"
        return self.instance(f"{function}_{count}", f"x[{count}] = {function}(x)", params, body)

    def _row_of_part(self, function: str, arrays: list[str], count: str, more: str, unit: int) -> list[str]:
        """Call of what takes a whole row of values: for all of them, or for this part's."""
        if not self.op.shared:
            return [f"{function}({', '.join([*arrays, count])}{more});"]
        begin, end = part_bounds(count, unit or 1)
        moved = [f"{array} + begin" for array in arrays]
        return [f"const uint32_t begin = {begin};", f"{function}({', '.join(moved)}, {end} - begin{more});"]

    def gate(self, function: str, count: str, clipped: tuple[float, float] | None = None, unit: int = 0) -> str:
        """Instance of the product of a gated MLP over ``count`` values; it takes ``(up, gate)``; returns its name.

        Args:
            clipped: alpha and limit of `float32.clipped_swiglu`, in place of the function.
            unit: see `loop_over`.
        """
        self.kernel("float32")
        if clipped is None:
            row, doc = f"{function}_times", f"up[{count}] *= {function}(gate[{count}])"
            value = f"colibri_{function}(gate[i]) * up[i]"
        else:
            row, doc = "clipped_swiglu", f"up[{count}] = clipped_swiglu(gate[{count}], up)"
            value = f"colibri_clipped_swiglu(gate[i], up[i], {', '.join(map(float_literal, clipped))})"
        body = [*self.loop_over("uint32_t", "i", count, unit=unit), f"    up[i] = {value};", "}"]
        if self.whole_rows:
            limits = "" if clipped is None else f", {', '.join(map(float_literal, clipped))}"
            called = f"colibri_{row}{'' if clipped is None else '_row'}"
            body = self._row_of_part(called, ["up", "gate"], count, limits, unit)
        params = f"float *restrict up, const float *restrict gate{self.part_params}"
        return self.instance(f"{row}_{count}", doc, params, body)

    def quantise(self, width: int, stride: int, kind: BufferKind, qmax: int, each: Rows) -> str:
        """Instance of the quantisation of rows; it takes ``(y, scale, x)``; returns its name."""
        self.kernel("quantise")
        function = f"colibri_quantise{self.element_bits(kind)}"
        bits = 8 if kind is BufferKind.Q8 else 16
        own, whole = self.number("width", width, "int"), self.number("stride", stride, "int")
        limit = self.number("qmax", qmax, "")
        bound = f"{qmax}.0f" if self._instances.generics is None else self.number("qmax", qmax, "float")
        padded = "" if stride == width else f"_in_{whole}"
        return self.instance(
            f"quantise{bits}_{each.shown}x{own}{padded}_to_{limit}",
            f"y[{each.shown}][{whole}] = x[{each.shown}][{own}] / scale[{each.shown}], within +-{limit}",
            f"{self.element(kind)} *restrict y, float *restrict scale, const float *restrict x",
            each.loop(
                [
                    f"{function}({each.at('y', whole)}, {each.at('scale', 1)}, {each.at('x', own)}, "
                    f"{own}, {whole}, {bound});"
                ]
            ),
        )
