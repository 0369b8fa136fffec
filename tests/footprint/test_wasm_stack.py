"""The stack in the memory of WebAssembly modules whose frames are known, or cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from colibri.errors import BadInput
from colibri.footprint.stack import Bounds
from colibri.footprint.wasm_code import _instructions, _signed, public_functions, read_functions
from colibri.footprint.wasm_tree import WasmTree

STACK = 4096
USE = "volatile int sink;\n__attribute__((noinline)) void use(int *p) { sink = p[sink]; }\n"
ARRAY = "__attribute__((noinline)) int {name}(int n) {{ int a[{words}]; a[n & 7] = n; {callee}(a); return a[1]; }}\n"


def linked(folder: Path, text: str, *flags: str) -> WasmTree:
    (folder / "program.c").write_text(text)
    (folder / "library").mkdir()
    clang = ["clang", "--target=wasm32", "-O2", "-ffreestanding", *flags]
    link = ["-nostdlib", f"-Wl,-z,stack-size={STACK}", "-Wl,--stack-first", "-Wl,--strip-debug"]
    for command in (
        [*clang, "-c", "program.c", "-o", "library/program.o"],
        [*clang, *link, "library/program.o", "-o", "program.wasm"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return WasmTree(folder / "program.wasm", folder / "library", STACK)


def test_frames_along_the_deepest_path_add_up(tmp_path: Path) -> None:
    inner, outer = ARRAY.format(name="inner", words=40, callee="use"), ARRAY.format(name="f", words=100, callee="use")
    text = f"{USE}{inner}{outer.replace('use(a)', 'use(a); inner(a[2])')}void _start(void) {{ sink = f(sink); }}\n"
    tree = linked(tmp_path, text)
    found = Bounds(tree).of("_start")
    assert (found.bytes, found.unknown) == (400 + 160, "")
    assert [(frame.function, frame.bytes) for frame in found.path if frame.bytes] == [("f", 400), ("inner", 160)]
    assert tree.public == {"use", "inner", "f", "_start"}
    assert (tree.reserve, tree.address("nothing")) == (STACK, None)


def test_a_leaf_uses_memory_below_the_stack_pointer(tmp_path: Path) -> None:
    leaf = "__attribute__((noinline)) static int leaf(int n) { volatile int a[8]; a[n] = n; return a[n / 2]; }\n"
    tree = linked(tmp_path, f"{USE}{leaf}void _start(void) {{ sink = leaf(sink) + leaf(7); }}\n")
    assert Bounds(tree).of("_start").bytes == 32
    assert "leaf" not in tree.public


def test_an_aligned_frame_takes_more_at_most(tmp_path: Path) -> None:
    body = "{ _Alignas(64) int a[16]; a[n & 7] = n; use(a); return a[1]; }"
    text = f"{USE}__attribute__((noinline)) int f(int n) {body}\nvoid _start(void) {{ sink = f(sink); }}\n"
    found = Bounds(linked(tmp_path, text)).of("_start").bytes
    assert found is not None
    assert 64 + 48 <= found <= 128 + 48


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("int a[n]; use(a); return a[0];", "its frame is not constant"),
        ("return pick(n) + 1;", "it calls through a pointer"),
        ("int a[9]; use(a); return n ? 1 + f(n - a[1]) : 0;", "recursion: f → f"),
    ],
)
def test_what_has_no_bound(body: str, reason: str, tmp_path: Path) -> None:
    pick = "static int one(int n) { return n; }\nstatic int two(int n) { return n + 1; }\nint (*pick)(int) = one;\n"
    start = "void _start(void) { pick = sink ? one : two; sink = f(sink); }\n"
    text = f"{USE}{pick}__attribute__((noinline)) int f(int n) {{ {body} }}\n{start}"
    found = Bounds(linked(tmp_path, text)).of("_start")
    assert found.bytes is None
    assert reason in found.unknown


def test_vectors_are_read_past(tmp_path: Path) -> None:
    text = "float x[64], y[64];\nvoid _start(void) { for (int i = 0; i < 64; i++) x[i] = x[i] * y[i] + 2.0f; }\n"
    assert Bounds(linked(tmp_path, text, "-msimd128")).of("_start").bytes == 0
    code = read_functions(tmp_path / "program.wasm", STACK).code
    assert [one.unsteady for one in code.values()] == [""] * len(code)


def test_what_is_no_such_module(tmp_path: Path) -> None:
    linked(tmp_path, f"{USE}void _start(void) {{ sink = 1; }}\n")
    image = tmp_path / "program.wasm"
    with pytest.raises(BadInput, match="is not the stack pointer"):
        read_functions(image, STACK * 2)
    whole = image.read_bytes()
    for end in range(0, len(whole) - 1, 3):  # wherever it is cut off
        image.write_bytes(whole[:end])
        try:
            read_functions(image, STACK)
        except BadInput:
            continue
        assert whole[end:][:1] == b"\0"  # between two sections: a custom one begins there
    object_ = tmp_path / "library/program.o"
    object_.write_bytes(object_.read_bytes().replace(b"linking", b"linkers"))
    assert public_functions(object_) == frozenset()


def test_an_instruction_that_is_not_known_is_refused() -> None:
    assert list(_instructions(b"\x41\x7f\x6a\x0b", 0, 4)) == [(0x41, -1), (0x6A, 0), (0x0B, 0)]
    for unknown in (b"\xfe\x00\x00\x00", b"\x06\x40", b"\xfd\xff\x7f"):
        with pytest.raises(KeyError):
            list(_instructions(unknown, 0, len(unknown)))
    assert _signed(b"\x80\x80\x04", 0) == (65536, 3)
    assert _signed(b"\x70", 0) == (-16, 1)
