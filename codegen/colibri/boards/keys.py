"""The keys of a board file as tables for docs/boards.md, from the classes that the file is read into."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_origin

import msgspec

from colibri.boards.load import INHERITS
from colibri.boards.profile import Board, Cpu, Emulator, Flash, Level, Region, Toolchain

# Each part of the file: its header, its class, and where its keys stand in the dictionaries below.
PARTS: tuple[tuple[str, type[msgspec.Struct], str], ...] = (
    ("", Board, ""),
    ("[cpu]", Cpu, "cpu."),
    ("[toolchain]", Toolchain, "toolchain."),
    ("[[levels]]", Level, "levels."),
    ("[[memory]]", Region, "memory."),
    ("[[emulators]]", Emulator, "emulators."),
    ("[flash]", Flash, "flash."),
)
_NOT_KEYS = {
    "id",
    "cpu",
    "toolchain",
    "memory",
    "emulators",
    "flash",
    "levels",
}  # of the board: the file's name, and its other parts

_MEANINGS = {
    INHERITS: "a file whose values hold where this one says nothing: without `.toml`, looked for beside this file, "
    "then among the boards of Colibri",
    "memory.name": "unique in the board; becomes part of linker symbols: small letters, digits and `_`",
}
_EXAMPLES = {
    INHERITS: '"_cortex_m"',
    "title": '"ST STM32F405xG"',
    "sources": '["ST RM0090, memory map"]',
    "kind": '"bare"',
    "kernels": '["neon_dotprod", "portable"]',
    "port": '"cortex_m"',
    "stack": "4096",
    "reserve": "16384",
    "cpu.arch": '"arm"',
    "cpu.core": '"Cortex-M4F"',
    "cpu.fpu": "true",
    "cpu.unlisted": "true",
    "toolchain.prefix": '"arm-none-eabi-"',
    "toolchain.clang_target": '"thumbv7em-none-eabihf"',
    "toolchain.flags": '["-mthumb", "-mcpu=cortex-m4"]',
    "toolchain.apt": '["gcc-arm-none-eabi"]',
    "toolchain.family": '"clang"',
    "toolchain.cflags": '["-Os"]',
    "toolchain.sysroot": '"/opt/vendor/sysroot"',
    "levels.name": '"v3"',
    "levels.target": '"arch=x86-64-v3"',
    "levels.kernels": '["avx2", "portable"]',
    "memory.name": '"sram"',
    "memory.kind": '"ram"',
    "memory.length": "0x2_0000",
    "memory.origin": "0x2000_0000",
    "memory.budget": "0x1_8000",
    "memory.warn": "0x1_4000",
    "memory.holds": '["data", "stack", "arena"]',
    "memory.cost": "2",
    "memory.clock": "{ register = 0x5802_44DC, bits = 0x2000_0000 }",
    "memory.needs": '"the application to set up the FMC before it calls the model"',
    "emulators.name": '"netduinoplus2"',
    "emulators.kind": '"qemu-system"',
    "emulators.proves": '"map"',
    "emulators.program": '"qemu-system-arm"',
    "emulators.args": '["-M", "netduinoplus2"]',
    "emulators.trap": '"bkpt"',
    "emulators.origins": "{ flash = 0 }",
    "emulators.apt": '["qemu-system-arm"]',
    "emulators.note": '"Timing says nothing."',
    "flash.probe_rs": '"STM32F405RGTx"',
    "flash.openocd": '["interface/stlink.cfg", "target/stm32f4x.cfg"]',
    "flash.pyocd": '"stm32h743xx"',
    "flash.st_flash": "true",
    "flash.picotool": "true",
    "flash.esptool": '"esp32c3"',
    "flash.uf2": "0xe48b_ff56",
    "flash.drive": '"RPI-RP2"',
}


@dataclass(frozen=True)
class Key:
    """A row.

    Attributes:
        path: ``memory.length``; top-level keys have no dot.
        type: in words of TOML.
        default: as TOML; empty when the key must be given.
        example: as TOML.
    """

    path: str
    type: str
    meaning: str
    default: str
    example: str

    @property
    def name(self) -> str:
        """As it stands in the file."""
        return self.path.rpartition(".")[2]


def keys() -> Iterator[tuple[str, list[Key]]]:
    """Header and keys of each part of the file.

    Raises:
        ValueError: a key without a meaning, or whose example is missing or of another type.
    """
    for header, struct, above in PARTS:
        documented = _documented(struct)
        fields = [
            field for field in msgspec.structs.fields(struct) if struct is not Board or field.name not in _NOT_KEYS
        ]
        rows = [_key(field, above, documented) for field in fields]
        if struct is Board:
            rows.insert(0, Key(INHERITS, "string", _MEANINGS[INHERITS], '""', _EXAMPLES[INHERITS]))
        yield header, rows


def keys_text() -> str:
    """Markdown: a heading and a table for each part."""
    lines: list[str] = []
    for header, rows in keys():
        lines += [f"### `{header}`" if header else "### At the top", ""]
        lines += ["| key | type | meaning | default | example |", "|---|---|---|---|---|"]
        for row in rows:
            default = f"`{row.default}`" if row.default else "must be given"
            lines.append(f"| `{row.name}` | {row.type} | {row.meaning} | {default} | `{row.example}` |")
        lines.append("")
    return "\n".join(lines)


def _key(field: msgspec.structs.FieldInfo, above: str, documented: dict[str, str]) -> Key:
    path = above + field.name
    if path not in _EXAMPLES:
        raise ValueError(f"no example for {path} in {__name__}")
    msgspec.convert(tomllib.loads(f"example = {_EXAMPLES[path]}")["example"], field.type)
    meaning = documented.get(field.name) or _MEANINGS.get(path, "see ")
    if meaning.startswith("see ") and isinstance(field.type, type) and issubclass(field.type, Enum):
        said = inspect.cleandoc(field.type.__doc__ or "")
        meaning = said[:1].lower() + said[1:]
    if not meaning or meaning.startswith("see "):
        raise ValueError(f"no meaning of {path}: say it in the docstring")
    return Key(path, _type(field.type), meaning.rstrip("."), _default(field), _EXAMPLES[path])


def _documented(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Field to its sentence under ``Attributes:`` of the docstring, as Markdown."""
    text = inspect.cleandoc(struct.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    return {name: " ".join(meaning.split()).replace("``", "`") for name, meaning in found}


def _type(kind: Any) -> str:
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        return "list of strings" if element is str else f"list of {_type(element)}"
    if get_origin(kind) is dict:
        return "table of name and integer"
    if get_origin(kind) is UnionType:  # with None: a table that may be left out
        return f"table of {' and '.join(f'`{name}`' for name in get_args(kind)[0].__struct_fields__)}"
    if issubclass(kind, Enum):
        return ", ".join(f'`"{member.value}"`' for member in kind)
    return {str: "string", int: "integer", bool: "`true` or `false`"}[kind]


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, dict):
        return "{}"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)
