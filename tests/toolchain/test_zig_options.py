"""Options of gcc in the words of zig."""

from __future__ import annotations

import pytest

from colibri.boards.load import load_board
from colibri.errors import BadInput, ToolMissing
from colibri.toolchain.find import find_toolchain
from colibri.toolchain.zig import zig_options

CASES = [
    ("thumbv6m-none-eabi", "-mthumb -mcpu=cortex-m0plus", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus"),
    (
        "thumbv7em-none-eabihf",
        "-mthumb -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
        "thumb-freestanding-eabihf",
        "-mcpu=cortex_m4+vfp4d16sp",
    ),
    (
        "thumbv8.1m.main-none-eabihf",
        "-mthumb -mcpu=cortex-m55 -mfloat-abi=hard -fno-tree-vectorize",
        "thumb-freestanding-eabihf",
        "-mcpu=cortex_m55+fp_armv8d16+mve_fp -fno-tree-vectorize",
    ),
    (
        "thumbv8.1m.main-none-eabihf",
        "-mcpu=cortex-m55+nomve -mfloat-abi=hard",
        "thumb-freestanding-eabihf",
        "-mcpu=cortex_m55-mve+fp_armv8d16",
    ),
    ("thumbv8m.main-none-eabi", "-mcpu=cortex-m33+nodsp", "thumb-freestanding-eabi", "-mcpu=cortex_m33-dsp"),
    (
        "riscv32-unknown-elf",
        "-march=rv32imac -mabi=ilp32 -mcmodel=medany",
        "riscv32-freestanding-none",
        "-mcpu=generic_rv32+m+a+c -mabi=ilp32 -mcmodel=medium",
    ),
    ("riscv64-linux-gnu", "-march=rv64gcv_zba", "riscv64-linux-musl", "-mcpu=generic_rv64+m+a+f+d+c+v+zba"),
    ("aarch64-linux-gnu", "-mcpu=cortex-a76", "aarch64-linux-musl", "-mcpu=cortex_a76"),
    ("aarch64-linux-gnu", "-march=armv8-a", "aarch64-linux-musl", "-mcpu=generic"),
    (
        "aarch64-linux-gnu",
        "-march=armv8.2-a+dotprod+fp16",
        "aarch64-linux-musl",
        "-mcpu=generic+v8_2a+dotprod+fullfp16",
    ),
    (
        "arm-linux-gnueabihf",
        "-mcpu=cortex-a7 -mfpu=neon-vfpv4 -mfloat-abi=hard",
        "arm-linux-musleabihf",
        "-mcpu=cortex_a7+neon+vfp4",
    ),
    ("x86_64-linux-gnu", "-march=x86-64-v3", "x86_64-linux-musl", "-mcpu=x86_64_v3"),
    ("x86_64-w64-mingw32", "-march=x86-64-v3", "x86_64-windows-gnu", "-mcpu=x86_64_v3"),
]


@pytest.mark.parametrize(("clang_target", "flags", "target", "options"), CASES)
def test_target_and_processor(clang_target: str, flags: str, target: str, options: str) -> None:
    assert zig_options(clang_target, flags.split()) == (target, tuple(options.split()))


def test_a_target_that_it_has_not() -> None:
    with pytest.raises(BadInput, match="no target of zig is known for pdp11"):
        zig_options("pdp11", [])
    with pytest.raises(BadInput, match="no --stack-first, with which an overflow of the stack traps"):
        zig_options("wasm32", ["-msimd128"])
    with pytest.raises(ToolMissing, match=r"no --stack-first, .*; the board's own compiler is clang"):
        find_toolchain(load_board("wasm32"), "zig")
    with pytest.raises(ToolMissing, match=r"reach the lowest 2 GB alone, .*; the board's own compiler is gcc"):
        find_toolchain(load_board("riscv-virt-rv64imac"), "zig")
    with pytest.raises(ToolMissing, match=r"no symbols and no map of a Windows program, .*; the board's own compiler"):
        find_toolchain(load_board("windows-x86-64"), "zig")
