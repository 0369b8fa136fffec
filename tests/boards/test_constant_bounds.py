"""Loops have constant bounds: read off the machine code of the generated kernels.

A small interpreter follows what each register is made of: constants, or one value (an argument, something loaded or
computed) plus constants. A loop is bounded by constants when the compare that ends it is between two constants, or
between two values that grew from the same one. Anything else (a length that was passed in or loaded) is not.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from board_packages import EXAMPLES, PRUNED, Make

from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.toolchain.build import build

CONSTANT = "constant"
DATA = "data"
SHIFTS = ("ls", "as", "ro")

# These depend on how far the text has come, or stop early where the data says so.
NOT_CONSTANT = re.compile(r"attention_|top\d+_of_")


def functions(image: Path) -> dict[str, list[tuple[int, str, str]]]:
    """Name to (address, mnemonic, operands) of each instruction."""
    command = ["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", str(image)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, list[tuple[int, str, str]]] = {}
    name = ""
    for line in text.splitlines():
        if head := re.fullmatch(r"[0-9a-f]+ <(\S+)>:", line):
            name = head[1]
            name = name.split(".")[0]  # a clone, such as name.constprop.0
            found[name] = []
        elif match := re.match(r"\s*([0-9a-f]+):\t(\S+)\s*([^@;]*)", line):
            found[name].append((int(match[1], 16), match[2].split(".")[0], match[3].strip()))
    return found


def open_loops(code: list[tuple[int, str, str]]) -> tuple[int, list[str]]:
    """Number of loops, and those that no constant ends.

    A loop is a branch backwards; what ends it is that branch's compare, or a branch out of the loop.
    """
    made: dict[str, str] = {f"r{i}": f"argument {i}" for i in range(4)}
    compared = DATA
    exits: list[tuple[int, int, str]] = []  # from, to, compared
    backwards: list[tuple[int, int]] = []
    for address, operation, operands in code:
        parts = re.split(r",\s*(?![^\[]*\]|[^{]*\})", operands)
        target = re.match(r"([0-9a-f]+) <", operands)
        if operation in ("cmp", "cmn"):
            left = made.get(parts[0], DATA)
            right = CONSTANT if parts[1].startswith("#") else made.get(parts[1], DATA)
            compared = left if left == right else DATA
        elif operation in ("cbz", "cbnz"):
            to = int(parts[1].split()[0], 16)
            exits.append((address, to, CONSTANT if made.get(parts[0]) == CONSTANT else DATA))
        elif operation.startswith("b") and target and operation not in ("bl", "bx"):
            to = int(target[1], 16)
            if code[0][0] <= to <= address:  # else a function is called last, with the return address of this one
                backwards.append((to, address))
            if operation != "b":
                exits.append((address, to, compared))
        else:
            follow(operation, parts, made, f"made at {address:x}")
            if operation in ("subs", "adds"):
                compared = made.get(parts[0], DATA)
    unbounded = []
    for start, stop in backwards:
        ends = [how for at, to, how in exits if start <= at <= stop and (at == stop or not start <= to <= stop)]
        if all(how == DATA for how in ends):
            unbounded.append(f"{start:x} to {stop:x}")
    return len(backwards), unbounded


def follow(operation: str, parts: list[str], made: dict[str, str], fresh: str) -> None:
    """What the written register, or the word of the stack, is made of."""
    if operation in ("str", "strd") and parts[-1].startswith("[sp"):
        for index, register in enumerate(parts[:-1]):
            made[stack_word(parts[-1], index)] = made.get(register, fresh)
        return
    if operation.startswith(("push", "pop", "nop", "it", "v", "st", "tst")):
        return
    if operation in ("ldr", "ldrd") and parts[-1].startswith("[sp"):
        for index, register in enumerate(parts[:-1]):
            made[register] = made.get(stack_word(parts[-1], index), fresh)
        return
    if operation == "ldrd":
        made[parts[0]], made[parts[1]] = fresh, f"{fresh}, second"
        return
    if operation.startswith("ld"):
        made[parts[0]] = CONSTANT if "[pc" in parts[1] else fresh
        return
    sources = parts[1:] if len(parts) > 1 else []
    kinds = {CONSTANT if part.startswith("#") else made.get(part, fresh) for part in sources if part[:2] not in SHIFTS}
    if operation in ("add", "adds", "addw", "sub", "subs", "subw") and len(parts) == 2:
        kinds.add(made.get(parts[0], fresh))
    if operation.startswith(("mov", "add", "sub", "lsl", "mvn", "rsb", "mul")):
        pointers = kinds - {CONSTANT}
        # n << 2 grows with n, but is not n plus a constant.
        shifted = pointers and (operation[:3] in ("lsl", "mul", "rsb", "mvn") or sources[-1][:2] in SHIFTS)
        if shifted and len(pointers) == 1 and made.get(sources[-2]) == CONSTANT:
            shifted = False
        made[parts[0]] = CONSTANT if not pointers else pointers.pop() if len(pointers) == 1 and not shifted else fresh
    else:
        made[parts[0]] = fresh


def stack_word(operand: str, index: int) -> str:
    offset = re.search(r"#(\d+)", operand)
    return f"stack {(int(offset[1]) if offset else 0) + 4 * index}"


@pytest.fixture(params=["sensor", "language"])
def kernels(request: pytest.FixtureRequest, make: Make) -> dict[str, list[tuple[int, str, str]]]:
    if request.param == "sensor":
        folder, _ = make(EXAMPLES / "load-moe/top2-e4-norm", "stm32f405", Options(batch=3))
    else:
        options = Options(Scheme.W4A8, prefill=4, context=32, drop=PRUNED)
        folder, _ = make(EXAMPLES / "shakespeare-moe", "stm32f405", options)
    build(folder, ["build/product.elf"])
    source = (folder / "src/model.c").read_text()
    named = re.findall(r"^COLIBRI_KERNEL void (\w+)\(", source, re.MULTILINE)
    code = functions(folder / "build/product.elf")
    return {name: code[name] for name in named}


def test_kernels_loop_a_constant_number_of_times(kernels: dict[str, list[tuple[int, str, str]]]) -> None:
    looped = 0
    for name, code in kernels.items():
        loops, unbounded = open_loops(code)
        looped += loops
        if not NOT_CONSTANT.match(name):
            assert unbounded == [], name
    assert looped > len(kernels) / 2


def test_the_reader_sees_a_bound_that_is_passed_in(tmp_path: Path) -> None:
    source = tmp_path / "loops.c"
    source.write_text(
        "void by_length(float *x, int n) { for (int i = 0; i < n; i++) { x[i] = x[i] * 2.0f; } }\n"
        "void by_memory(float *x, const int *n) { for (int i = 0; i < *n; i++) { x[i] = x[i] * 2.0f; } }\n"
        "void constant(float *x) { for (int i = 0; i < 24; i++) { x[i] = x[i] * 2.0f; } }\n"
        "void called_last(float *x, int n) { x[0] = 0.0f; by_length(x + 1, n); }\n"
    )
    never = ["-fno-inline", "-fno-ipa-icf"]
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-O2", "-ffreestanding", *never]
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", str(source), "-o", str(tmp_path / "loops.o")], check=True)
    code = functions(tmp_path / "loops.o")
    assert open_loops(code["constant"]) == (1, [])
    assert open_loops(code["called_last"]) == (0, [])
    for name in ("by_length", "by_memory"):
        loops, unbounded = open_loops(code[name])
        assert loops == len(unbounded) == 1, name
