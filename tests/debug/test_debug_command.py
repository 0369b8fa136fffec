"""`colibri debug`: gdb stops before the op that was asked for; buffers that matter there have the reference's bits."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.cli import main
from colibri.debug.ops import named_ops
from colibri.generate import build_graph, generate
from colibri.graph.graph import BufferKind, Graph
from colibri.graph.interpret import Reference, Run
from colibri.options import Options
from colibri.package import Package, Span, View, load_package
from colibri.testing import read_cases

ROOT = Path(__file__).resolve().parents[2]
MIXTRAL = ROOT / "tests/oracle/mixtral-base"
SENSOR = ROOT / "examples/load-moe/top2-e4-norm"
SHOWN = re.compile(r"^0x[0-9a-f]+.*?:((?:\s+0x[0-9a-f]+)+)$", re.MULTILINE)


def need_gdb() -> None:
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("gdb-multiarch is not installed")


def alive(package: Package, index: int) -> list[tuple[Span, View]]:
    """Arrays that were written before an op and are read by it or behind it."""
    return [
        (span, view)
        for block in package.memory.blocks
        for span in block.spans
        for view in span.views
        if any(begin < index <= end for begin, end in span.live)
    ]


def expected(graph: Graph, index: int, case: NDArray[np.generic]) -> Run:
    """The reference after the ops before this one, from an empty context."""
    reference = Reference(graph)
    tokens = graph.kind == "tokens"
    run = Run(graph, 1, len(case) if tokens else len(case) // graph.input_width, 0, not tokens, reference.states)
    if tokens:
        run.tokens = case.astype(np.int32)
    else:
        run.floats[Graph.INPUT] = case.view(np.float32).reshape(-1, graph.input_width)
    for op in graph.ops[:index]:
        op.reference(run)
    return run


def bits_of(run: Run, span: Span, view: View) -> NDArray[np.uint32]:
    """Rows of an array in the reference, as unsigned integers of its own width."""
    kind = run.graph.buffers[span.name].kind
    if kind is BufferKind.FLOAT:
        return run.floats[span.name].view(np.uint32)
    if kind is BufferKind.ROUTE:
        route = run.routes[span.name]
        return route.weight.view(np.uint32) if view.name else route.index.astype(np.uint32)
    rows = run.quantised[span.name]
    if view.name:
        return rows.scale.view(np.uint32).reshape(-1, 1)
    return (rows.integers & (0xFF if view.type == "int8" else 0xFFFF)).astype(np.uint32)


def left_over(folder: Path) -> list[str]:
    """Programs that run an image of a package."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            line = path.read_bytes()
            found += [line.decode(errors="replace")] if bytes(folder) in line and b"qemu" in line else []
    return found


def words(text: str) -> list[int]:
    return [int(word, 16) for line in SHOWN.findall(text) for word in line.split()]


@pytest.mark.emulator
@pytest.mark.parametrize(
    ("checkpoint", "board", "more", "stop", "passes"),
    [
        # The fourth prompt is the first of four tokens, which another function takes in: after 1 + 2 + 3 single ones.
        (MIXTRAL, "stm32f405", ["--prefill", "4"], "layer1.experts", (1, 7)),
        (SENSOR, "raspberry-pi-5", [], "layer0.experts", (1, 2)),
    ],
)
def test_buffers_have_the_bits_of_the_reference(
    checkpoint: Path,
    board: str,
    more: list[str],
    stop: str,
    passes: tuple[int, int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    need_gdb()
    folder = tmp_path / "package"
    assert main(["generate", str(checkpoint), "--board", board, "-o", str(folder), *more]) == 0
    package = load_package(folder)
    index = next(op.index for op in named_ops(package) if op.name == stop)
    arrays = alive(package, index)
    assert len(arrays) >= 4
    names = [f"{span.name}.{view.name}" if view.name else span.name for span, view in arrays]
    shows = [command for name in names for command in ("echo \\n=== \\n", f"colibri-bits {name}")]
    commands: list[str] = []
    for at in range(1, passes[1] + 1):
        commands += ["echo \\n=== stop\\n", "continue", *(shows if at in passes else [])]
    capfd.readouterr()
    arguments = [part for command in commands for part in ("-ex", command)]
    assert main(["debug", str(folder), "--break", stop, "--batch", *arguments]) == 0
    assert left_over(folder) == []
    stops = capfd.readouterr().out.split("=== stop\n")[1:]
    assert len(stops) == passes[1] and all(f"colibri: before {stop}\n" in one for one in stops)

    cases = [case for case in read_cases(folder) if case.op in "PF"]
    case = [np.frombuffer(one.payload, "<u4") for one in cases]
    graph = build_graph(Checkpoint.open(checkpoint), Options(prefill=4) if more else Options())
    wanted = {passes[0]: case[0], passes[1]: case[3 if more else 1]}
    for at, request in wanted.items():
        run = expected(graph, index, request)
        for (span, view), text in zip(arrays, stops[at - 1].split("=== \n")[1:], strict=True):
            right = bits_of(run, span, view)
            found = np.array(words(text), np.uint32).reshape(-1, view.shape[-1] if len(view.shape) > 1 else 1)
            assert right.size and np.array_equal(found[: len(right), : right.shape[1]], right), (span.name, view.name)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "a package"
    generate(SENSOR, load_board("raspberry-pi-5"), Options(), folder)
    return folder


def test_ops_have_names(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", str(package), "--list-ops", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    names = ["inp", "activation", "layer0.router", "layer0.quantise", "layer0.experts", "layer0.add", "out"]
    assert [op["name"] for op in listed] == names
    assert main(["debug", str(package), "--list-ops"]) == 0
    assert re.search(
        r"^ +2  layer0.router +linear_f32_1x4x24_bias, top2_of_1x4$", capsys.readouterr().out, re.MULTILINE
    )


def test_where_there_is_no_stub_for_gdb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(SENSOR), "--board", "wasm32", "-o", str(tmp_path / "package")]) == 0
    capsys.readouterr()
    assert main(["debug", str(tmp_path / "package")]) == 2
    assert "gdb does not debug wasmtime" in capsys.readouterr().err


@pytest.mark.emulator
def test_a_stop_that_there_is_not(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_gdb()
    assert main(["debug", str(package), "--break", "layer0.expert", "--batch"]) == 2
    assert capsys.readouterr().err == "colibri: --break: no op 'layer0.expert'; did you mean 'layer0.experts'?\n"


@pytest.mark.emulator
def test_a_folder_for_temporary_files_with_a_strange_or_long_name(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    need_gdb()
    with tempfile.TemporaryDirectory(prefix="a, b", dir="/tmp") as strange:  # tmp_path alone may be too long
        monkeypatch.setattr(tempfile, "tempdir", strange)
        assert main(["debug", str(package), "--break", "out", "--batch", "-ex", "continue"]) == 0
        assert "colibri: before out\n" in capfd.readouterr().out
        assert main(["debug", str(package), "--image", "product", "--batch", "-ex", "continue"]) == 0
        assert re.search(r"^> [0-9a-f]{8} [0-9a-f]{8}$", capfd.readouterr().out, re.MULTILINE)
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert main(["debug", str(package), "--batch"]) == 2
    assert "the path of a socket there is too long; set TMPDIR to a shorter folder" in capfd.readouterr().err


@pytest.mark.emulator
def test_print_only_writes_what_its_lines_need(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_gdb()
    assert main(["debug", str(package), "--print-only", "--break", "out", "--batch", "-ex", "continue", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert lines["emulator"].startswith(f"cd {shlex.quote(str(package / 'build/debug'))} && ")
    script = (package / "build/debug/colibri.gdb").read_text()
    assert "define colibri-show z_q8.scale" in script and "target remote ./gdb" in script
    waiting = subprocess.Popen(["bash", "-c", f"exec 2>&1; {lines['emulator']}"], stdout=subprocess.DEVNULL)
    try:
        wait = "for _ in $(seq 2000); do grep -q ' 00010000 .* gdb$' /proc/net/unix && break; sleep 0.02; done; "
        said = subprocess.run(
            ["bash", "-c", lines["gdb"].replace(" && ", f" && {{ {wait}}} && ", 1)],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
        assert "colibri: before out" in said
    finally:
        waiting.kill()
        waiting.wait()


def test_without_a_gdb_it_says_what_to_install(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["debug", str(package)]) == 4
    err = capsys.readouterr().err
    assert "gdb-multiarch is not installed" in err and "sudo apt-get install gdb-multiarch" in err


@pytest.mark.emulator
def test_a_gdb_that_does_not_know_the_processor_is_not_taken(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = tmp_path / "gdb"
    stranger.write_text("#!/bin/sh\necho 'Undefined item: \"aarch64\".' >&2\n")
    stranger.chmod(0o755)
    assert main(["debug", str(package), "--gdb", str(stranger)]) == 4
    assert "does not know aarch64" in capsys.readouterr().err


@pytest.mark.emulator
def test_a_gdb_by_a_relative_path(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    mine = tmp_path / "bin" / "gdb"
    mine.write_text("#!/bin/sh\nexit 0\n")
    mine.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert main(["debug", str(package), "--gdb", "bin/gdb", "--print-only", "--json"]) == 0
    assert f"{shlex.quote(str(mine))} -q" in json.loads(capsys.readouterr().out)["gdb"]
