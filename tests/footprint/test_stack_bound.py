"""The bound of small programs whose stack is known, or cannot be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from colibri.boards.load import load_board
from colibri.footprint.call_tree import CallTree
from colibri.footprint.compiler_frames import CompilerFrames, parse_callgraph
from colibri.footprint.stack import Bounds, StackBound, StackUse, exception_frame, margin_of

FLAGS = {
    "arm": ("arm-none-eabi-", ["-mthumb", "-mcpu=cortex-m4"]),
    "arm A32": ("arm-none-eabi-", ["-marm", "-mcpu=arm1176jzf-s"]),
    "riscv32": ("riscv64-unknown-elf-", ["-march=rv32imac", "-mabi=ilp32"]),
    "riscv64": ("riscv64-unknown-elf-", ["-march=rv64imac", "-mabi=lp64", "-mcmodel=medany"]),
    "aarch64": ("aarch64-linux-gnu-", []),
    "x86_64": ("", ["-mavx2", "-fno-pie", "-no-pie", "-fno-stack-protector", "-fcf-protection=none"]),
}
CALLED = "volatile int sink;\n__attribute__((noipa)) void use(void *p) { sink = *(int *)p; }\n"


class Program:
    """C files, compiled and linked as a package does it."""

    def __init__(self, folder: Path, compiler: str, *, compiler_says: bool = True) -> None:
        self.compiler = compiler
        self._folder = folder
        self._arch = compiler.split()[0]
        self._extra = ["-fcallgraph-info=su"] if compiler_says else []
        self._prefix, self._flags = FLAGS[compiler]

    def tree(self, **sources: str) -> CallTree:
        build = self._folder / "build"
        objects = []
        for name, text in sources.items():
            source = self._folder / f"{name}.c"
            source.write_text(text)
            target = build / name / f"{name}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            self._cc("-O2", "-ffreestanding", "-ffunction-sections", *self._extra, "-c", source.name, "-o", str(target))
            objects.append(str(target.relative_to(self._folder)))
        link = ["-nostdlib", "-nostartfiles", "-static", "-Wl,-e,main", "-Wl,-Map=build/out.map", *objects]
        self._cc(*link, "-lgcc", "-o", "build/out.elf")
        image = build / "out.elf"
        return CallTree(image, CompilerFrames(build), self._arch, f"{self._prefix}objdump")

    def bound(self, **sources: str) -> StackBound:
        return Bounds(self.tree(**sources)).of("main")

    def _cc(self, *arguments: str) -> None:
        subprocess.run([f"{self._prefix}gcc", *self._flags, *arguments], cwd=self._folder, check=True)


@pytest.fixture(params=sorted(FLAGS))
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    if shutil.which(f"{FLAGS[request.param][0]}gcc") is None:
        pytest.skip(f"no compiler for {request.param}")
    return Program(tmp_path, request.param)


@pytest.fixture
def arm(tmp_path: Path) -> Program:
    return Program(tmp_path, "arm")


def array(size: int, name: str = "main", callee: str = "use") -> str:
    return f"void {callee}(void *);\nint {name}(void) {{ int a[{size // 4}]; {callee}(a); return a[1]; }}\n"


def test_frames_along_the_deepest_path_add_up(program: Program) -> None:
    middle = "void use(void *);\nvoid middle(void *p) { int a[50]; use(a); use(p); }\n"
    found = program.bound(main=array(400, callee="middle"), middle=middle, use=CALLED)
    assert found.bytes is not None
    assert [frame.function for frame in found.path[:2]] == ["main", "middle"]
    assert sum(frame.bytes for frame in found.path) == found.bytes
    assert 600 <= found.bytes <= 600 + 3 * 48


def test_the_machine_code_agrees_with_the_compiler(program: Program) -> None:
    tree = program.tree(main=array(400), use=CALLED)
    for name in ("main", "use"):
        address = tree.address(name)
        assert address is not None
        function = tree.function(address)
        assert function.compiler is not None
        assert function.machine.depth == function.compiler.bytes


def test_without_the_compilers_word_the_machine_code_is_enough(program: Program, tmp_path: Path) -> None:
    said = program.bound(main=array(400), use=CALLED)
    folder = tmp_path / "silent"
    folder.mkdir()
    assert Program(folder, program.compiler, compiler_says=False).bound(main=array(400), use=CALLED) == said


def test_a_jump_to_another_function_leaves_nothing_behind(program: Program) -> None:
    main = "int last(int);\n__attribute__((noipa)) int first(int n) { return n; }\n"
    main += "int main(void) { int n = first(1) + first(2) * first(3); return last(n); }\n"
    tree = program.tree(main=main, last=array(400, "last"), use=CALLED)
    address, last = tree.address("main"), tree.address("last")
    assert address is not None
    function = tree.function(address)
    assert function.bytes >= 8
    assert {call.depth for call in function.calls if call.target == last} == {0}
    assert Bounds(tree).of("main").bytes == max(function.bytes + 8, Bounds(tree).of("last").bytes or 0)


def test_recursion_has_no_bound(program: Program) -> None:
    def calls(name: str, callee: str) -> str:
        body = f"{{ int a[9]; use(a); return n ? 1 + {callee}(n - 1) : a[1]; }}"
        return f"int {callee}(int);\nvoid use(void *);\nint {name}(int n) {body}\n"

    main = "int again(int);\nextern volatile int sink;\nint main(void) { return again(sink) + 1; }\n"
    found = program.bound(main=main, again=calls("again", "other"), other=calls("other", "again"), use=CALLED)
    assert found.bytes is None
    assert "recursion: again → other → again" in found.unknown


def test_a_call_through_a_pointer_has_no_bound(program: Program) -> None:
    main = "void use(void *);\nint (*pick)(int);\nint main(void) { int a[9]; use(a); return pick(a[1]) + 1; }\n"
    found = program.bound(main=main, use=CALLED)
    assert found.bytes is None
    assert "main: it calls through a pointer" in found.unknown


def test_a_jump_through_a_pointer_has_no_bound(program: Program) -> None:
    main = "int (*pick)(int);\nextern volatile int sink;\nint main(void) { return pick(sink); }\n"
    found = program.bound(main=main, use=CALLED)
    assert "main: it calls through a pointer" in found.unknown


def test_a_switch_is_no_call_through_a_pointer(program: Program) -> None:
    cases = "".join(f"case {n}: use(a); sink = {n * n + 3}; use(a + {n}); break;\n" for n in range(12))
    main = "void use(void *);\nextern volatile int sink;\n"
    main += f"int main(void) {{ int a[64];\nswitch (sink) {{\n{cases}}}\nuse(a); return 0; }}\n"
    found = program.bound(main=main, use=CALLED)
    assert found.bytes is not None
    assert 256 <= found.bytes < 400


def test_a_frame_that_depends_on_data_has_no_bound(program: Program) -> None:
    main = "void use(void *);\nextern volatile int sink;\nint main(void) { int a[sink]; use(a); return a[0]; }\n"
    found = program.bound(main=main, use=CALLED)
    assert found.bytes is None
    assert "main: its frame depends on data" in found.unknown


def test_a_dynamic_frame_shows_in_the_machine_code_too(arm: Program, tmp_path: Path) -> None:
    main = "void use(void *);\nextern volatile int sink;\nint main(void) { int a[sink]; use(a); return a[0]; }\n"
    found = Program(tmp_path, "arm", compiler_says=False).bound(main=main, use=CALLED)
    assert "its frame is not constant (sub" in found.unknown


def test_a_large_frame(program: Program) -> None:
    found = program.bound(main=array(40_000), use=CALLED)
    assert found.bytes is not None
    assert 40_000 <= found.bytes <= 40_100


def test_static_functions_with_one_name(program: Program) -> None:
    def part(name: str, size: int) -> str:
        return (
            "void use(void *);\n"
            f"__attribute__((noinline)) static int inner(int n) {{ int a[{size}]; a[0] = n; use(a); return a[1]; }}\n"
            f"int {name}(int n) {{ return inner(n) + 1; }}\n"
        )

    main = "int one(int);\nint two(int);\nextern volatile int sink;\nint main(void) { return one(sink) + two(sink); }\n"
    tree = program.tree(main=main, one=part("one", 20), two=part("two", 200), use=CALLED)
    small, large = Bounds(tree).of("one").bytes, Bounds(tree).of("two").bytes
    assert small is not None
    assert large is not None
    assert large - small == 720


def test_the_compilers_library_counts(tmp_path: Path) -> None:
    main = "extern volatile float x;\nint main(void) { x = x / 3.0f; return 0; }\n"
    found = Program(tmp_path, "riscv32").bound(main=main, data="volatile float x = 1;\n")
    assert found.bytes is not None
    assert [frame.function for frame in found.path[:2]] == ["main", "__divsf3"]
    assert found.path[1].bytes > 0


def test_assembler_that_pushes_counts(arm: Program) -> None:
    main = 'int main(void) { __asm__ volatile("push {r4-r7}\\n\\tpush {r4-r7}\\n\\tadd sp, #32"); return 0; }\n'
    assert arm.bound(main=main).bytes == 32


def test_a_loop_that_pushes_has_no_bound(arm: Program) -> None:
    main = 'int main(void) { __asm__ volatile("1: push {r4}\\n\\tsubs r0, #1\\n\\tbne 1b" ::: "r0"); return 0; }\n'
    tree = arm.tree(main=main)
    address = tree.address("main")
    assert address is not None
    assert "in a loop" in tree.function(address).machine.unsteady


def test_code_that_the_symbol_table_does_not_name(arm: Program) -> None:
    found = arm.bound(main=array(40), use='__asm__(".globl use\\n.thumb\\nuse: bx lr\\n");\n')
    assert found.bytes is None
    assert "no symbol names the code there" in found.unknown


def test_no_such_function(arm: Program) -> None:
    tree = arm.tree(main=array(40), use=CALLED)
    assert Bounds(tree).of("nothing").unknown == "it is not in the image"


def test_callgraph_file() -> None:
    nodes = [
        ("src/model.c:add.constprop.0", r"add.constprop\nsrc/model.c:7:1\n16 bytes (static)\n0 dynamic objects", ""),
        ("main", r"main\nsrc/model.c:9:1\n40 bytes (dynamic)\n1 dynamic objects", ""),
        ("memset", r"__builtin_memset\n<built-in>", " shape : ellipse"),
    ]
    edges = [("src/model.c:add.constprop.0", ' label: "src/model.c:9:5"'), ("__indirect_call", "")]
    text = 'graph: { title: "src/model.c"\n'
    text += "".join(f'node: {{ title: "{title}" label: "{label}"{shape} }}\n' for title, label, shape in nodes)
    text += "".join(f'edge: {{ sourcename: "main" targetname: "{target}"{label} }}\n' for target, label in edges)
    frames = parse_callgraph(text)
    assert set(frames) == {"add.constprop.0", "main"}
    assert (frames["add.constprop.0"].bytes, frames["add.constprop.0"].bounded) == (16, True)
    assert not frames["main"].bounded
    assert frames["main"].indirect
    assert frames["main"].callees == {"add.constprop.0"}


@pytest.mark.parametrize("object_", ["", "linker stubs", "/usr/lib/libgcc.a(_divsf3.o)", "build/none/none.o"])
def test_an_object_without_a_callgraph_file(object_: str, tmp_path: Path) -> None:
    assert CompilerFrames(tmp_path / "build").of(object_, "main") is None


def test_margin() -> None:
    assert (margin_of(0), margin_of(1024), margin_of(1025), margin_of(4000)) == (256, 256, 257, 1000)


def test_what_the_core_pushes() -> None:
    """8 words, with an FPU 17 registers and a word in reserve more, and one to align; only Arm's M profile does it."""
    bare = load_board("stm32f405")
    assert exception_frame(bare) == exception_frame(load_board("nucleo-h743zi")) == 4 * (8 + 17 + 1 + 1)
    assert exception_frame(msgspec.structs.replace(bare, cpu=msgspec.structs.replace(bare.cpu, fpu=False))) == 4 * 9
    for name in ("riscv-virt-rv32imac", "raspberry-pi-5", "x86-64-v3"):
        assert exception_frame(load_board(name)) == 0


@pytest.mark.parametrize(
    ("bound", "reserve", "overflows", "short"),
    [
        (300, 640, False, 0),
        (300, 639, False, 1),
        (300, 408, False, 232),  # bound and exception, and nothing for interrupts
        (300, 407, True, 233),
        (300, 300, True, 340),
        (300, 0, False, 0),  # Linux gives what is needed
        (None, 64, False, 0),
    ],
)
def test_a_reserve_against_bound_exception_and_margin(
    bound: int | None, reserve: int, overflows: bool, short: int
) -> None:
    needed = None if bound is None else 640
    use = StackUse(StackBound("main", bound), exception=108, margin=232, needed=needed, reserve=reserve, entries=())
    assert (use.overflows, use.short) == (overflows, short)
