"""Targets and processors in the words of zig, from those of gcc and clang.

Names of zig's processors and features are those of LLVM with ``_`` for ``-``: `zig targets` lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from colibri.errors import BadInput

# Features of -mfpu for M-profile cores: LLVM's definition of the same name in clang's table of FPUs.
_FPUS = {
    "fpv4-sp-d16": "vfp4d16sp",
    "fpv5-sp-d16": "fp_armv8d16sp",
    "fpv5-d16": "fp_armv8d16",
    "fp-armv8": "fp_armv8",
    "vfp": "vfp2",
    "vfpv2": "vfp2",
    "vfpv3-d16": "vfp3d16",
    "vfpv4": "vfp4",
    "vfpv4-d16": "vfp4d16",
    "neon": "neon",
    "neon-vfpv3": "neon",
    "neon-vfpv4": "neon+vfp4",
    "neon-fp-armv8": "neon+fp_armv8",
    "crypto-neon-fp-armv8": "neon+fp_armv8+crypto",
}
# What a core with -mfpu=auto, or none, has in its largest form, which is what gcc's name of the core means.
_FPU_OF_CORE = {
    "cortex-m4": "vfp4d16sp",
    "cortex-m7": "fp_armv8d16",
    "cortex-m33": "fp_armv8d16sp",
    "cortex-m35p": "fp_armv8d16sp",
    "cortex-m55": "fp_armv8d16+mve_fp",
    "cortex-m85": "fp_armv8d16+mve_fp",
}
_EXTENSIONS = {"fp16": "fullfp16", "simd": "neon", "fp": "fp_armv8"}  # the others have one name in gcc and LLVM
_G = "imafd"  # of RISC-V, with zicsr and zifencei


def zig_options(clang_target: str, flags: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Target and options of `zig cc`.

    Args:
        clang_target: value of ``--target``.
        flags: processor options of clang; those that zig has as well stay as they are.

    Raises:
        BadInput: none is known for the target.

    >>> zig_options("thumbv7em-none-eabihf", ["-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard"])
    ('thumb-freestanding-eabihf', ('-mcpu=cortex_m7+fp_armv8d16',))
    >>> zig_options("riscv32-unknown-elf", ["-march=rv32imac_zba", "-mabi=ilp32"])
    ('riscv32-freestanding-none', ('-mcpu=generic_rv32+m+a+c+zba', '-mabi=ilp32'))
    """
    arch, system, abi = _split(clang_target)
    arm = arch in ("arm", "thumb")
    values = dict(flag.split("=", 1) for flag in flags if "=" in flag)
    hard = arm and values.get("-mfloat-abi", "hard" if abi.endswith("hf") else "soft") != "soft"
    cpu = _processor(arch, values.get("-mcpu", ""), values.get("-march", ""))
    if hard:
        cpu += _added(_fpu(values.get("-mcpu", ""), values.get("-mfpu", "auto")))
    taken = ("-mcpu=", "-march=", *(("-mfpu=", "-mfloat-abi=", "-mthumb") if arm else ()))
    others = [flag.replace("=medany", "=medium") for flag in flags if not flag.startswith(taken)]
    return f"{arch}-{system}-{abi}", (*((f"-mcpu={cpu}",) if cpu else ()), *others)


def _split(clang_target: str) -> tuple[str, str, str]:
    """Architecture, system and ABI."""
    arch, *rest = clang_target.split("-")
    arch = "thumb" if arch.startswith("thumb") else "arm" if re.match(r"arm(v\d|$)", arch) else arch
    end = rest[-1] if rest else ""
    if "linux" in rest:
        return arch, "linux", end.replace("gnu", "musl")
    if "mingw32" in rest or "windows" in rest:
        return arch, "windows", "gnu"
    if end.startswith("eabi"):
        return arch, "freestanding", end
    if end in ("elf", "unknown", "none") and rest:
        return arch, "freestanding", "none"
    if arch == "wasm32":
        what = "zig's linker for WebAssembly has no --stack-first, with which an overflow of the stack traps"
        raise BadInput(what, where="toolchain.clang_target")
    raise BadInput(f"no target of zig is known for {clang_target}", where="toolchain.clang_target")


def _processor(arch: str, cpu: str, march: str) -> str:
    """Value of -mcpu."""
    if arch.startswith("riscv") and march:
        bits, letters = march[2:4], march[4:]
        return f"generic_rv{bits}" + _added("+".join(_riscv(letters)))
    name, *more = (cpu or march).split("+")
    if not name:
        return ""
    level = re.fullmatch(r"armv(\d)(?:\.(\d))?-a", name)
    if not cpu and level:
        version = f"v{level[1]}_{level[2]}a" if level[2] else f"v{level[1]}a"
        base = "generic" + _added(version if version != "v8a" else "")
    else:
        base = name.replace("-", "_")
    return base + "".join(_extension(one) for one in more)


def _fpu(cpu: str, fpu: str) -> str:
    """Features of an FPU by its name; of one without a name, what the core has in its largest form."""
    core, *more = cpu.split("+")
    if fpu != "auto":
        return _FPUS.get(fpu, fpu.replace("-", "_"))
    features = "" if "nofp" in more else _FPU_OF_CORE.get(core, "")
    return features.replace("+mve_fp", "") if {"nomve", "nomve.fp"} & set(more) else features


def _extension(name: str) -> str:
    if name in ("nofp", "nomve.fp"):
        return ""
    if name.startswith("no"):
        return f"-{name[2:]}"
    return _added(_EXTENSIONS.get(name, name.replace("-", "_")))


def _riscv(letters: str) -> Iterator[str]:
    single, *long = letters.split("_")
    for letter in single.replace("g", _G):
        if letter not in "ie":
            yield letter
    yield from ("e",) if single.startswith("e") else ()
    yield from long


def _added(features: str) -> str:
    return f"+{features}" if features else ""
