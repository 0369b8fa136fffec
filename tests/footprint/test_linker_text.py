"""Maps of GNU ld and lld, and GNU ld's table of memory use, as text."""

from __future__ import annotations

import pytest

from colibri.boards.profile import MemoryKind, Region
from colibri.footprint.elf import ElfSection
from colibri.footprint.linker import Input, parse_map, parse_usage
from colibri.footprint.owners import Content, Owner, Owners, content, subject

MAP = """\
Discarded input sections

 .text.unused   0x0000000000000000       0x20 build/model.o

Memory Configuration

Linker script and memory map

LOAD build/model.o

.text           0x0000000008000000      0x100
 *(.text*)
 .text.short    0x0000000008000000       0x10 build/model.o
                0x0000000008000000                short
 *fill*         0x0000000008000010        0x4 00
 .text.a_function_with_a_long_name
                0x0000000008000014       0x20 /lib dir/libgcc.a(_arm_mulsf3.o)
                                         0x30 (size before relaxing)
                0x0000000008000014                a_function_with_a_long_name
                0x0000000008000034        0x4 LONG 0x0
 .text.empty    0x0000000008000038        0x0 build/model.o
                0x0000000008000038                . = ALIGN (0x8)

.a_long_output_section
                0x0000000020000000        0x8 load address 0x0000000008000038
 COMMON         0x0000000020000000        0x8 build/main.o
OUTPUT(product.elf elf32-littlearm)
"""


def test_map() -> None:
    assert parse_map(MAP) == [
        Input(".text", ".text.short", 0x08000000, 0x10, "build/model.o"),
        Input(".text", "*fill*", 0x08000010, 4, "00"),
        Input(".text", ".text.a_function_with_a_long_name", 0x08000014, 0x20, "/lib dir/libgcc.a(_arm_mulsf3.o)"),
        Input(".text", "linker script", 0x08000034, 4, ""),
        Input(".a_long_output_section", "COMMON", 0x20000000, 8, "build/main.o"),
    ]


LLD_MAP = """\
     VMA      LMA     Size Align Out     In      Symbol
   10000        0        0     1 colibri_region_flash_origin = ORIGIN(flash)
 8000000  8000000       40   128 .vectors
 8000000  8000000       40     4         build/bkpt/start.o:(.vectors)
 8000000  8000000       40     1                 port_vectors
 8000040  8000040       64     8 .text
 8000040  8000040        0     1         port_code_start = .
 8000040  8000040       1a     4         build/lib x.a(model.o):(.text.scale)
 8000040  8000040        0     1                 $t
 8000060  8000060       40     8         /a/libgcc.a(_arm_mulsf3.o):(.text)
 80000a0  80000a0        0     1         . = ALIGN(4)
 80000a8  80000a8        c     4 .rodata
 80000a8  80000a8        7     1         <internal>:(.rodata.str1.1)
20000000 20000000      240    16 .stack
20000000 20000000      240     1         . += 576
"""


def test_map_of_lld() -> None:
    """It names no fills: they are what the input sections of an output section leave."""
    assert parse_map(LLD_MAP) == [
        Input(".vectors", ".vectors", 0x08000000, 0x40, "build/bkpt/start.o"),
        Input(".text", ".text.scale", 0x08000040, 0x1A, "build/lib x.a(model.o)"),
        Input(".text", "*fill*", 0x0800005A, 6, ""),
        Input(".text", ".text", 0x08000060, 0x40, "/a/libgcc.a(_arm_mulsf3.o)"),
        Input(".text", "*fill*", 0x080000A0, 4, ""),
        Input(".rodata", ".rodata.str1.1", 0x080000A8, 7, ""),
        Input(".rodata", "*fill*", 0x080000AF, 5, ""),
        Input(".stack", "*fill*", 0x20000000, 0x240, ""),
    ]


def test_usage_units_and_noise() -> None:
    text = """a warning: 12 B of something
Memory region         Used Size  Region Size  %age Used
           FLASH:        2321 B         1 KB    226.66%
             RAM:          4 KB        16 KB     25.00%
        SRAM_2:          3 MB         4 MB     75.00%
             CCM:          0 GB        64 KB      0.00%
"""
    assert parse_usage(text) == {"FLASH": 2321, "RAM": 4096, "SRAM_2": 3 << 20, "CCM": 0}


@pytest.mark.parametrize(
    ("object_", "owner"),
    [
        ("build/obj/demo.o", Owner.MODEL),
        ("build/demo.c.o", Owner.MODEL),
        ("build/libdemo.a(scale.o)", Owner.RUNTIME),
        ("build/obj/port/startup.o", Owner.PORT),
        ("build/obj/core/startup.o", Owner.RUNTIME),
        ("/usr/lib/gcc/arm-none-eabi/12.2.1/libgcc.a(_arm_mulsf3.o)", Owner.COMPILER),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/crtbeginT.o", Owner.COMPILER),
        ("/root/.cache/zig/o/1/libcompiler_rt.a(compiler_rt.o)", Owner.COMPILER),
        ("/usr/lib/x86_64-linux-gnu/libc.a(scale.o)", Owner.LIBC),
        ("/usr/lib/x86_64-linux-gnu/crt1.o", Owner.LIBC),
        ("/usr/lib/x86_64-linux-gnu/libm-2.36.a(e_exp.o)", Owner.LIBC),
        ("linker stubs", Owner.LINKER),
        ("customer.o", Owner.OTHER),
    ],
)
def test_owner_of_an_object(tmp_path: object, object_: str, owner: Owner) -> None:
    for name in ("demo.c", "runtime/core/scale.c", "runtime/core/startup.c", "port/startup.S", "build/customer.c"):
        path = tmp_path / name  # type: ignore[operator]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert Owners(tmp_path).of(object_) is owner  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (".text.main", Content.CODE),
        (".rodata.table", Content.TABLES),
        (".vectors", Content.TABLES),
        (".data.rel.ro", Content.DATA),
        (".bss.x", Content.BSS),
        ("COMMON", Content.BSS),
        ("fast_code", Content.CODE),
    ],
)
def test_content_by_name_then_by_flags(name: str, kind: Content) -> None:
    assert content(name, ElfSection("out", 0, 0, 1, stored=True, writable=False, code=True)) is kind


def test_a_section_of_gcc_that_names_no_function() -> None:
    assert subject(".text.unlikely") == ""
    assert subject(".text.unlikely.cold_path") == "cold_path"
    assert subject(".rodata.demo_layers") == "demo_layers"


def test_limit_of_a_region_without_budget() -> None:
    assert Region("ram", MemoryKind.RAM, 100).limit == 100


def test_the_map_of_a_windows_program_by_lld() -> None:
    """It has one column of addresses, counted from the program's own."""
    text = """\
Address  Size     Align Out     In      Symbol
00001000 00000120  4096 .text
00001000 00000010    16         /usr/lib/crt2.o:(.text)
00001000 00000000     0                 main
00001020 00000100    16         build/libm.a(model.o):(.text$add_8)
"""
    assert parse_map(text, 0x1_4000_0000) == [
        Input(".text", ".text", 0x1_4000_1000, 0x10, "/usr/lib/crt2.o"),
        Input(".text", "*fill*", 0x1_4000_1010, 0x10, ""),
        Input(".text", ".text$add_8", 0x1_4000_1020, 0x100, "build/libm.a(model.o)"),
    ]
