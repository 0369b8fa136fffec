"""Names of cores that a board file may give, and the compiler options that mean another one.

Cycle tables and reports find a core by its name, so a misspelt one must not pass for a new one. Names are those of the
makers' manuals, options those of gcc's and clang's documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from colibri.boards.words import nearest

_M_PROFILE = {
    **{f"Cortex-M{name}": f"cortex-m{name.lower()}" for name in ("0", "1", "3", "4", "7", "23", "33", "35P", "52")},
    "Cortex-M55": "cortex-m55",
    "Cortex-M85": "cortex-m85",
    "Cortex-M0+": "cortex-m0plus",
    "Cortex-M4F": "cortex-m4",  # one core to the compiler: the F says that its FPU is there
    "STAR-MC1": "star-mc1",
}
_A32 = {f"Cortex-A{number}": f"cortex-a{number}" for number in (5, 7, 8, 9, 15, 17)} | {"ARM1176JZF-S": "arm1176jzf-s"}
_ARMV8A = {
    f"Cortex-{name}": f"cortex-{name.lower()}"
    for name in (
        *("A34", "A35", "A53", "A55", "A57", "A65", "A72", "A73", "A75", "A76", "A76AE", "A77", "A78", "A78AE"),
        *("A78C", "A510", "A520", "A710", "A715", "A720", "A725", "X1", "X2", "X3", "X4", "X925"),
    )
}
_NEOVERSE = {f"Neoverse-{name}": f"neoverse-{name.lower()}" for name in ("E1", "N1", "N2", "N3", "V1", "V2", "V3")}
_RISCV = {
    "Bumblebee N200": "",
    "ESP-RISC-V": "",
    "Hazard3": "",
    "SiFive E31": "sifive-e31",
    "SiFive U54": "sifive-u54",
    "SiFive U74": "sifive-u74",
    "SpacemiT X60": "spacemit-x60",
    "XuanTie C906": "",
    "XuanTie C908": "",
    "XuanTie C910": "",
}

# By architecture: each core, and what -mcpu calls it; empty when compilers have no name for it.
_CORES: dict[str, dict[str, str]] = {
    "arm": {**_M_PROFILE, **_A32},
    "aarch64": {**_ARMV8A, **_NEOVERSE, "A64FX": "a64fx", "Carmel": "carmel"},
    "riscv32": _RISCV,
    "riscv64": _RISCV,
    "wasm32": {"WebAssembly": "", "WebAssembly SIMD": ""},
    "x86_64": {},
}

# Boards for every core of an instruction set: the name is that of the set, as -march has it but for its capitals.
_SETS = {
    "aarch64": re.compile(r"Armv(8(\.[1-9])?|9(\.[1-5])?)-A"),
    "riscv32": re.compile(r"RV32[A-Z][A-Za-z0-9_]*"),
    "riscv64": re.compile(r"RV64[A-Z][A-Za-z0-9_]*"),
    "x86_64": re.compile(r"x86-64(-v[234])?"),
}
_SET_EXAMPLES = {"aarch64": ["Armv9-A"], "riscv32": ["RV32IMAC"], "riscv64": ["RV64GC"]}
_SET_EXAMPLES["x86_64"] = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


def is_known(arch: str, core: str) -> bool:
    """Whether a core, or an instruction set in place of one, is among those of an architecture."""
    return core in _CORES.get(arch, {}) or _is_set(arch, core)


def cycle_counter(arch: str, core: str) -> str:
    """What counts cycles in a core of a microcontroller: ``dwt``, ``mcycle``, ``hazard3``, ``esp``; empty for nothing.

    Source: Armv7-M and Armv8-M Architecture Reference Manuals, DWT; RISC-V Privileged Architecture, mcycle; RP2350
    datasheet, Hazard3: mcycle stands still after reset; ESP-IDF, csr.h and rv_utils.h: a counter of Espressif's own.
    """
    if arch == "arm":
        return "" if core in {"Cortex-M0", "Cortex-M0+", "Cortex-M1", "Cortex-M23"} else "dwt"
    return {"ESP-RISC-V": "esp", "Hazard3": "hazard3"}.get(core, "mcycle")


def right_word(arch: str, core: str) -> str:
    """What may have been meant."""
    return nearest(core, known_cores(arch))


def known_cores(arch: str) -> list[str]:
    """Names of an architecture; of instruction sets, examples."""
    return [*_CORES.get(arch, {}), *_SET_EXAMPLES.get(arch, [])]


def contradiction(arch: str, core: str, flags: Iterable[str]) -> tuple[int, str] | None:
    """The first compiler option that names another core: its index, and the core that it names.

    Options that no known core has are the compiler's to judge.
    """
    options = _CORES.get(arch, {})
    for index, flag in enumerate(flags):
        option, _, value = flag.partition("=")
        value = value.lower().split("+")[0].split("_")[0]
        if option == "-mcpu":
            meant = [name for name, known in options.items() if known and known == value]
            if meant and core not in meant:
                return index, meant[0]
        elif option == "-march" and _is_set(arch, core):
            named = _cased(arch, value)
            if _is_set(arch, named) and core.split("_")[0] != named:
                return index, named
    return None


def _is_set(arch: str, core: str) -> bool:
    pattern = _SETS.get(arch)
    return pattern is not None and pattern.fullmatch(core) is not None


def _cased(arch: str, value: str) -> str:
    """A value of ``-march`` as the name of a set.

    >>> _cased("aarch64", "armv8.2-a"), _cased("riscv32", "rv32imac"), _cased("x86_64", "x86-64-v3")
    ('Armv8.2-A', 'RV32IMAC', 'x86-64-v3')
    """
    if arch == "aarch64":
        return re.sub(r"^armv(.*)-a$", r"Armv\1-A", value)
    return value.upper() if arch.startswith("riscv") else value
