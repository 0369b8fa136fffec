"""What single instructions do with the stack, as objdump writes them."""

from __future__ import annotations

import pytest

from colibri.footprint.machine_code import MachineCode
from colibri.footprint.stack_effects import READERS, Effect, Flow, parse_disassembly, riscv, thumb, unread


def effect(arch: str, text: str) -> Effect:
    decode, comment, _ = READERS[arch]
    (one,) = parse_disassembly(f"   10:\t{text}\n", comment)
    return decode(one)


@pytest.mark.parametrize(
    ("arch", "text", "change"),
    [
        ("arm", "push\t{r4, r5, lr}", 12),
        ("arm", "stmdb\tsp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}", 36),
        ("arm", "vpush\t{d8-d10}", 24),
        ("arm", "vpush\t{s16}", 4),
        ("arm", "sub\tsp, #36\t@ 0x24", 36),
        ("arm", "sub.w\tsp, sp, #1024\t@ 0x400", 1024),
        ("arm", "subw\tsp, sp, #1020\t@ 0x3fc", 1020),
        ("arm", "str.w\tlr, [sp, #-4]!", 4),
        ("arm", "strd\tr4, r5, [sp, #-16]!", 16),
        ("arm", "add\tsp, #8", -8),
        ("arm", "msr\tMSPLIM, r3", 0),
        ("arm", "pop\t{r4, r5}", -8),
        ("arm", "ldr.w\tr4, [sp], #4", -4),
        ("arm", "str\tr2, [sp, #8]", 0),
        ("arm", "add\tr0, sp, #16", 0),
        ("arm", "popne\t{r4, r5}", 0),
        ("arm", "addne\tsp, #8", 0),
        ("arm", "pushne\t{r4, r5}", 8),
        ("arm", "stmib\tsp, {r7, r9}", 0),
        ("arm", "stmia.w\tsp, {r0, r2, r3}", 0),
        ("arm", "vstmia\tsp, {s0, s1}", 0),
        ("arm", "ldmia.w\tr3, {r0, r1}", 0),
        ("arm", "ldm\tr3, {r0, r1}", 0),
        ("arm", "sub\tsp, fp, #28", 0),
        ("arm", "vstrw.32\tq4, [sp, #-16]!", 16),
        ("arm", "ldc\t15, cr9, [sp], #16", -16),
        ("riscv32", "add\tsp,sp,-16", 16),
        ("riscv32", "addi\tsp,sp,-2032", 2032),
        ("riscv32", "add\tsp,sp,16", -16),
        ("riscv32", "add\ta0,sp,8", 0),
        ("riscv32", "sw\tra,12(sp)", 0),
        ("aarch64", "stp\tx29, x30, [sp, #-96]!", 96),
        ("aarch64", "str\td8, [sp, #-16]!", 16),
        ("aarch64", "sub\tsp, sp, #0x3f0", 1008),
        ("aarch64", "sub\tsp, sp, #0x1, lsl #12", 4096),
        ("aarch64", "ldp\tx29, x30, [sp], #96", -96),
        ("aarch64", "stp\tx19, x20, [sp, #16]", 0),
        ("x86_64", "push   %rbx", 8),
        ("x86_64", "sub    $0x28,%rsp", 40),
        ("x86_64", "add    $0xffffffffffffff80,%rsp", 128),
        ("x86_64", "and    $0xffffffffffffffe0,%rsp", 24),
        ("x86_64", "lea    -0x10(%rsp),%rsp", 16),
        ("x86_64", "add    $0x28,%rsp", -40),
        ("x86_64", "pop    %rbx", -8),
        ("x86_64", "mov    %rsp,%rdi", 0),
    ],
)
def test_how_far_the_stack_moves(arch: str, text: str, change: int) -> None:
    found = effect(arch, text)
    assert (found.change, found.unsteady) == (change, False)


@pytest.mark.parametrize(
    ("arch", "text"),
    [
        ("arm", "sub.w\tsp, sp, r3"),
        ("arm", "mov\tsp, r4"),
        ("arm", "ldm\tr0, {r4, sp, lr}"),
        ("riscv32", "add\tsp,sp,t0"),
        ("riscv32", "mv\tsp,a0"),
        ("aarch64", "sub\tsp, sp, x1"),
        ("aarch64", "addvl\tsp, sp, #-2"),
        ("x86_64", "sub    %rax,%rsp"),
        ("x86_64", "mov    %rdi,%rsp"),
    ],
)
def test_what_only_the_run_knows(arch: str, text: str) -> None:
    assert effect(arch, text).unsteady


@pytest.mark.parametrize(
    ("arch", "text", "flow", "target"),
    [
        ("arm", "bl\t8000424 <main>", Flow.CALL, 0x8000424),
        ("arm", "blx\tr3", Flow.CALL, None),
        ("arm", "b.n\t80000aa <port_start+0x1e>", Flow.JUMP, 0x80000AA),
        ("arm", "bne.n\t80000aa <port_start+0x1e>", Flow.BRANCH, 0x80000AA),
        ("arm", "cbz\tr3, 80000aa <port_start+0x1e>", Flow.BRANCH, 0x80000AA),
        ("arm", "bx\tlr", Flow.STOP, None),
        ("arm", "bxne\tlr", Flow.NEXT, None),
        ("arm", "bx\tr3", Flow.JUMP, None),
        ("arm", "pop\t{r4, pc}", Flow.STOP, None),
        ("arm", "popne\t{r4, pc}", Flow.NEXT, None),
        ("arm", "ldr.w\tpc, [sp], #4", Flow.STOP, None),
        ("arm", "tbb\t[pc, r0]", Flow.JUMP, None),
        ("arm", "addls\tpc, pc, r3, lsl #2", Flow.BRANCH, None),
        ("arm", "ldrls\tpc, [pc, r3, lsl #2]", Flow.BRANCH, None),
        ("arm", "ldm\tsp, {r4, fp, sp, pc}", Flow.STOP, None),
        ("arm", "ldmne\tsp, {r4, fp, sp, pc}", Flow.NEXT, None),
        ("arm", "blne\t8000424 <main>", Flow.CALL, 0x8000424),
        ("riscv32", "jal\t80002014 <__clzsi2>", Flow.CALL, 0x80002014),
        ("riscv32", "jal\tra,80002014 <__clzsi2>", Flow.CALL, 0x80002014),
        ("riscv32", "jalr\t-16(ra) # 80002014 <__clzsi2>", Flow.CALL, 0x80002014),
        ("riscv32", "jalr\ta5", Flow.CALL, None),
        ("riscv32", "j\t80002014 <__clzsi2>", Flow.JUMP, 0x80002014),
        ("riscv32", "jr\ta5", Flow.JUMP, None),
        ("riscv32", "beqz\ta0,80002014 <__clzsi2+0x8>", Flow.BRANCH, 0x80002014),
        ("riscv32", "ret", Flow.STOP, None),
        ("aarch64", "bl\t400a54 <main>", Flow.CALL, 0x400A54),
        ("aarch64", "blr\tx3", Flow.CALL, None),
        ("aarch64", "b.ne\t400a54 <main+0x8>  // b.any", Flow.BRANCH, 0x400A54),
        ("aarch64", "tbnz\tw0, #3, 400a54 <main+0x8>", Flow.BRANCH, 0x400A54),
        ("aarch64", "br\tx16", Flow.JUMP, None),
        ("aarch64", "ret", Flow.STOP, None),
        ("x86_64", "call   401010 <main>", Flow.CALL, 0x401010),
        ("x86_64", "call   *%rax", Flow.CALL, None),
        ("x86_64", "jmp    401010 <main>", Flow.JUMP, 0x401010),
        ("x86_64", "notrack jmp *%rax", Flow.JUMP, None),
        ("x86_64", "jne    401010 <main+0x4>", Flow.BRANCH, 0x401010),
        ("x86_64", "ret", Flow.STOP, None),
    ],
)
def test_where_it_goes_on(arch: str, text: str, flow: Flow, target: int | None) -> None:
    found = effect(arch, text)
    assert (found.flow, found.target) == (flow, target)


def test_code_below_the_stack_pointer_counts() -> None:
    assert effect("x86_64", "vmovaps %ymm0,-0x40(%rsp)").reach == 0x40


def test_an_address_for_the_stack_pointer_is_a_new_stack() -> None:
    assert effect("arm", "ldr.w\tsp, [pc, #12]\t@ 8000424").switches
    assert effect("riscv32", "auipc\tsp,0x402").switches
    assert effect("riscv32", "add\tsp,sp,-8 # 80402000 <port_stack_top>").switches


def test_what_a_disassembler_does_not_know_is_not_taken_for_nothing() -> None:
    """A start-up that begins with such a word had no instruction at its address, and so a bound of 0."""
    text = "80000000:\t.4byte\t0xf14022f3\n80000004:\taddi\tsp,sp,-32\n80000006:\t.2byte\t0x0\n80000008:\tret\n"
    found = parse_disassembly(text, "#")
    assert [one.name for one in found] == [".4byte", "addi", ".2byte", "ret"]
    control, other = unread(found[0]), unread(found[2])
    assert control is not None and not control.unsteady and control.flow is Flow.NEXT
    assert other is not None and other.unsteady and other.padding
    assert unread(found[1]) is None
    swap = parse_disassembly("0:\t.4byte\t0x34011173\n", "#")[0]  # csrrw sp, mscratch, sp
    assert (unread(swap) or Effect()).unsteady
    llvm = parse_disassembly("      10:      \t<unknown>\n", "@")[0]
    assert (unread(llvm) or Effect()).unsteady
    assert MachineCode(found, [(0x80000000, 10, "port_start")], riscv, 0).read(0x80000000).depth == 32
    assert MachineCode(found, [(0x7FFFFFFE, 2, "lost")], riscv, 0).read(0x7FFFFFFE).unsteady


def test_a_far_jump_of_lld_is_a_call() -> None:
    gnu = "800261c:\tmovw\tip, #509\t@ 0x1fd\n8002620:\tmovt\tip, #2048\n8002624:\tbx\tip\n"
    llvm = gnu.replace("ip", "r12").replace(":\t", ":      \t")
    for text in (gnu, llvm):
        jump = parse_disassembly(text, "@")[-1]
        assert (thumb(jump).flow, thumb(jump).target) == (Flow.JUMP, 0x80001FC)
    other = parse_disassembly(gnu.replace("movt\tip", "movt\tr3"), "@")[-1]
    assert thumb(other).target is None


def test_a_call_into_the_function_itself_is_a_jump() -> None:
    """On Armv6-M compilers jump so in long functions, since `b` reaches only 2 KB; a bound was refused for them."""
    head = "10:\tpush\t{r4, lr}\n12:\tbl\t1a <f+0xa>\n16:\t.word\t0x12345678\n"
    tail = "1a:\tsub\tsp, #16\n1c:\tadd\tsp, #16\n1e:\tpop\t{r4, pc}\n"
    found = MachineCode(parse_disassembly(head + tail, "@"), [(0x10, 16, "f")], thumb, 0).read(0x10)
    assert (found.depth, found.calls, found.unsteady) == (24, (), "")
    recursive = head.replace("1a <f+0xa>", "10 <f>").replace(".word\t0x12345678", "nop\n18:\tnop")
    found = MachineCode(parse_disassembly(recursive + tail, "@"), [(0x10, 16, "f")], thumb, 0).read(0x10)
    assert [(call.target, call.depth) for call in found.calls] == [(0x10, 8)]


def test_clang_aligns_the_stack_by_way_of_a_register() -> None:
    """Thumb cannot clear bits of sp; a bound was refused for each function with MVE's vectors in its frame."""
    head = "10:\tpush\t{r4, r6, r7, lr}\n12:\tadd\tr7, sp, #8\n"
    aligned = "14:\tsub.w\tr4, sp, #160\n18:\tbfc\tr4, #0, #4\n1c:\tmov\tsp, r4\n"
    tail = "1e:\tsub.w\tr4, r7, #8\n22:\tmov\tsp, r4\n24:\tpop\t{r4, r6, r7, pc}\n"
    found = MachineCode(parse_disassembly(head + aligned + tail, "@"), [(0x10, 0x16, "f")], thumb, 0).read(0x10)
    assert (found.depth, found.unsteady) == (16 + 160 + 12, "")
    plain = aligned.replace("sub.w\tr4, sp, #160", "mov\tr4, sp")
    found = MachineCode(parse_disassembly(head + plain + tail, "@"), [(0x10, 0x16, "f")], thumb, 0).read(0x10)
    assert (found.depth, found.unsteady) == (16 + 12, "")
    for other in ("sub.w\tr4, r3, #160", "sub.w\tr5, sp, #160", "ldr\tr4, [sp, #8]"):
        text = head + aligned.replace("sub.w\tr4, sp, #160", other) + tail
        assert MachineCode(parse_disassembly(text, "@"), [(0x10, 0x16, "f")], thumb, 0).read(0x10).unsteady
