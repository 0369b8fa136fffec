"""Calls through a register that clang's -Oz makes of direct ones: the stack has a bound all the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from colibri.footprint.call_tree import CallTree
from colibri.footprint.compiler_frames import CompilerFrames
from colibri.footprint.register_calls import direct_calls
from colibri.footprint.stack import Bounds
from colibri.footprint.stack_effects import parse_disassembly, thumb

HEAD = "00000010 <f>:\n  10:\tpush\t{r4, r5, r7, lr}\n  12:\tldr\tr5, [pc, #24]\t@ (0000002c <f+0x1c>)\n"
TAIL = "  2c:\t.word\t0x00000101\n  30:\t.word\t0x00000200\n\n00000100 <g>:\n 100:\tbx\tlr\n"
SOURCE = """\
__attribute__((noinline)) void say(const char *text) { for (volatile int i[4] = {0}; text[i[0]]; i[0]++) {} }
int main(void) { say("one"); say("two"); say("three"); say("four"); return 0; }
"""


def calls(body: str) -> list[tuple[str, str, str]]:
    text = HEAD + body + TAIL
    found = direct_calls(parse_disassembly(text, "@"), text, thumb)
    return [(one.name, one.operands, one.label) for one in found if one.name in ("bl", "blx", "bx", "b.w")][:-1]


def test_each_call_of_a_loaded_address_is_direct() -> None:
    body = "  14:\tblx\tr5\n  16:\tmov\tr0, r4\n  18:\tbl\t40 <h>\n  1c:\tblx\tr5\n  1e:\tmov\tr1, r5\n"
    end = "  20:\tldmia.w\tsp!, {r4, r5, r7, lr}\n  24:\tbx\tr1\n"
    direct = ("bl", "100", "g")
    assert calls(body + end) == [direct, ("bl", "40 <h>", "h"), direct, ("b.w", "100", "g")]


@pytest.mark.parametrize(
    "body",
    [
        "  14:\tmovs\tr5, #4\n  16:\tblx\tr5\n",
        "  14:\tpop\t{r5}\n  16:\tblx\tr5\n",
        "  14:\tldmia\tr0, {r4-r6}\n  18:\tblx\tr5\n",
        "  14:\tldr\tr5, [r5, #4]\n  16:\tblx\tr5\n",
        "  14:\tit\teq\n  16:\tmoveq\tr5, r4\n  18:\tblx\tr5\n",
        "  14:\tmovs\tr0, #1\n  16:\tblx\tr5\n  18:\tbne.n\t16 <f+0x6>\n",  # another way leads to the call
        "  14:\tldr\tr5, [pc, #24]\t@ (00000030 <f+0x20>)\n  16:\tblx\tr5\n",  # no address of Thumb code
        "  14:\tldr\tr5, [pc, #24]\t@ (00000034 <f+0x24>)\n  16:\tblx\tr5\n",  # no constant
        "  14:\tb.n\t18 <f+0x8>\n  16:\tnop\n  18:\tblx\tr5\n",
        "  14:\tblx\tr5\n  16:\ttbb\t[pc, r0]\n",  # where the table leads is not known
    ],
)
def test_what_the_run_alone_knows_stays_a_call_through_a_pointer(body: str) -> None:
    assert calls(body)[0] == ("blx", "r5", "")


def test_a_call_forgets_what_it_may_change() -> None:
    body = "  14:\tmov\tr3, r5\n  16:\tblx\tr3\n  18:\tblx\tr3\n  1a:\tblx\tr5\n"
    assert calls(body) == [("bl", "100", "g"), ("blx", "r3", ""), ("bl", "100", "g")]
    assert calls("  14:\tmov\tr3, r5\n  16:\tbkpt\t0x00ab\n  18:\tblx\tr3\n") == [("blx", "r3", "")]


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4"])
def test_what_clang_makes_for_size_has_a_bound(core: str, tmp_path: Path) -> None:
    for program in ("clang", "arm-none-eabi-gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    (tmp_path / "main.c").write_text(SOURCE)
    target = ["--target=thumbv7em-none-eabi" if core == "cortex-m4" else "--target=thumbv6m-none-eabi", f"-mcpu={core}"]
    compiled = ["clang", *target, "-mfloat-abi=soft", "-Oz", "-ffreestanding", "-c", "main.c", "-o", "main.o"]
    linked = ["arm-none-eabi-gcc", f"-mcpu={core}", "-mthumb", "-nostdlib", "-Wl,-e,main", "-Wl,-Map=out.map", "main.o"]
    subprocess.run(compiled, cwd=tmp_path, check=True)
    subprocess.run([*linked, "-o", "out.elf"], cwd=tmp_path, check=True)
    text = subprocess.run(
        ["arm-none-eabi-objdump", "-d", tmp_path / "out.elf"], capture_output=True, text=True, check=True
    )
    assert "blx\tr" in text.stdout  # else this compiler shows nothing
    found = Bounds(CallTree(tmp_path / "out.elf", CompilerFrames(tmp_path), "arm", "arm-none-eabi-objdump")).of("main")
    assert (found.unknown, [frame.function for frame in found.path]) == ("", ["main", "say"])
