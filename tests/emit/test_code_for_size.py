"""C that is generated for size: one function for all shapes of a kind, without a warning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import COMPILERS, compile_strictly
from small_models import HOST_BOARD, ORACLE, PORTABLE_BOARD, make_package, sensor, write_mixtral

from colibri.emit.c_shapes import Generics, Instance, marked, most
from colibri.footprint.library import library_use
from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.optimise import Optimise
from colibri.toolchain.build import build

MIXTRAL, SENSOR = ORACLE / "mixtral-base", sensor("top2-e4-norm")
SHORT = {"context": 20}  # the golden vectors, made each time, fill the context
TINY = {"fewer experts": {}, "more experts": {"num_local_experts": 8}, "more layers": {"num_hidden_layers": 5}}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("source", [SENSOR, MIXTRAL], ids=["sensor", "mixtral"])
def test_no_warning(tmp_path: Path, source: Path, scheme: Scheme, compiler: str) -> None:
    """Layers that differ, and several rows, so that shapes are parameters."""
    more = {"batch": 5} if source == SENSOR else {"prefill": 4, "kv": StateType.F16, "drop": {0: {1, 5}}, **SHORT}
    make_package(source, tmp_path / "p", HOST_BOARD, scheme=scheme, optimise=Optimise.SIZE, **more)
    compile_strictly(tmp_path / "p", compiler)


@pytest.mark.parametrize("name", ["deepseekv3-base", "gptoss-base", "llama4-top1", "phimoe-base", "switch-base"])
def test_no_warning_for_other_ops(tmp_path: Path, name: str) -> None:
    options = {"scheme": Scheme.W4A16, "prefill": 3, "optimise": Optimise.SIZE, **SHORT}
    make_package(ORACLE / name, tmp_path / "p", PORTABLE_BOARD, **options)
    for compiler in COMPILERS:
        compile_strictly(tmp_path / "p", compiler)


def test_one_function_serves_all_shapes_and_rows(tmp_path: Path) -> None:
    make_package(MIXTRAL, tmp_path / "p", scheme=Scheme.W8A8, prefill=4, optimise=Optimise.SIZE, **SHORT)
    source = (tmp_path / "p/src/model.c").read_text()
    made = re.findall(r"^COLIBRI_KERNEL void (\w+)\(", source, re.MULTILINE)
    assert len(made) == len(set(made)) and made.count("linear_w8a8") == 1
    assert [name for name in made if name.startswith("linear_w8a8")] == ["linear_w8a8"]
    called = set(re.findall(r"^ +linear_w8a8\(.*?, (\S+), (\d+), (\d+)(?:, \d+)*\);$", source, re.M | re.S))
    assert len(called) > 3  # rows, outputs, inputs
    assert "static void layer_rows(" in source and "layer_4(" not in source and "layer_1(" not in source


def test_a_shape_that_all_share_is_no_parameter(tmp_path: Path) -> None:
    make_package(SENSOR, tmp_path / "p", scheme=Scheme.W8A8, optimise=Optimise.SIZE)
    source = (tmp_path / "p/src/model.c").read_text()
    assert "rows" not in source  # of one sample there is one row


def sizes(folder: Path, optimise: Optimise) -> dict[str, tuple[str, int]]:
    """For each shape of model its functions in C, without numbers, and the bytes of its code."""
    found = {}
    for shape, config in TINY.items():
        package = folder / shape.replace(" ", "-")
        checkpoint = write_mixtral(folder / "models" / package.name, **config)
        # With this context all buffers stand beyond the 2 KB that one instruction reaches, whatever the shape.
        options = {"scheme": Scheme.W8A8, "prefill": 4, "prefix": "m", "optimise": optimise, "context": 64}
        make_package(checkpoint, package, "riscv-virt-rv32imac", **options)
        build(package, ["build/libm.a"])
        source = (package / "src/model.c").read_text()
        functions = re.findall(r"^(?:COLIBRI_KERNEL|static|colibri_status)[^;={]*\n\{\n.*?^\}", source, re.M | re.S)
        assert len(functions) > 20
        found[shape] = re.sub(r"\d+", "N", "\n".join(functions)), library_use(package / "build/libm.a").code
    return found


@pytest.mark.parametrize("optimise", Optimise)
def test_nothing_grows_with_experts_or_layers(optimise: Optimise, tmp_path: Path) -> None:
    """Tables apart, which have a row for each. An instruction with a larger constant may be 2 bytes longer."""
    texts, code = zip(*sizes(tmp_path, optimise).values(), strict=True)
    assert len(set(texts)) == 1
    assert (
        max(code) - min(code) <= 24
    )  # less than the least that an expert or a layer could add: a call of a kernel each


def kernel(name: str, width: int, *, rows: str = "1", limit: int = 127) -> Instance:
    """One that uses each kind of number."""
    size, padded, bound = marked("width", str(width), "int"), marked("groups", str(width // 32), "int"), str(limit)
    return Instance(
        f"{name}_{marked('rows', rows)}x{size}",
        f"y[{marked('rows', rows)}][{size}] = x",
        "float *y",
        (
            f"int sums[{most('sums', width // 32)}];",
            f"f(y, sums, {size}, {marked('rows', rows, 'int')}, 3 * {padded}, {marked('qmax', bound, 'float')});",
        ),
    )


def test_numbers_become_parameters_constants_or_parts_of_another() -> None:
    generics = Generics()
    calls = [generics.ask(kernel("sum", 64)), generics.ask(kernel("sum", 128, rows="rows"))]
    generics.finish()
    assert generics.called(calls) == ["sum", "sum"]
    assert generics.resolved(f"{calls[1]}(g(x, 1));") == "sum(g(x, 1), (int)rows, 128);"
    assert generics.resolved(f"{calls[0]}(x);") == "sum(x, 1, 64);"
    assert generics.made == [
        Instance(
            "sum",
            "y[rows][width] = x",
            "float *y, int rows, int width",
            ("int sums[4];", "f(y, sums, width, rows, 3 * (width / 32), 127.0f);"),
        )
    ]


def test_kernels_that_differ_in_more_than_numbers_stay_apart() -> None:
    generics = Generics()
    other = Instance(f"sum_{marked('width', '8', 'int')}", "", "float *y", (f"g(y, {marked('width', '8', 'int')});",))
    calls = [generics.ask(kernel("sum", 64)), generics.ask(other), generics.ask(kernel("sum", 64, limit=63))]
    generics.finish()
    assert generics.called(calls) == ["sum", "sum_2", "sum"]
    assert generics.resolved(f"{calls[2]}(x);") == "sum(x, 63.0f);"
