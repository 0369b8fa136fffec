"""Small firmware, linked for real, with the package.json that a generator would have written."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from colibri.boards.profile import Board, BoardKind, Cpu, Holds, MemoryKind, Region, Toolchain
from colibri.package import SCHEMA, Block, CodeEstimate, Memory, ModelFacts, Package, Section, Span, Within

WEIGHTS = (
    Section("header", "header", 0, 40),
    Section("embedding", "embedding", 64, 333),
    Section("layers.0.router", "layer 0 / router", 400, 32),
    Section("layers.0.experts.0.up", "layer 0 / expert 0", 448, 100),
    Section("layers.0.experts.0.down", "layer 0 / expert 0", 560, 100),
    Section("layers.0.experts.2.up", "layer 0 / expert 2", 672, 100),
    Section("layers.0.experts.2.down", "layer 0 / expert 2", 784, 100),
)
MODEL_BYTES = 896
BLOCK = Block(
    name="memory",
    region="ram",
    context=48,
    states=208,
    arena=704,
    total=960,
    bound=704,
    proven=True,
    spans=(Span("context", "context", 0, 48), Span("keys", "state", 48, 100), Span("values", "state", 152, 100)),
)
MODEL_C = """
#include <stdint.h>
extern const unsigned char demo_bin[];
extern unsigned char demo_memory[];
extern float runtime_scale(float);
const int16_t demo_layers[5] = {1, 2, 3, 4, 5};
static int calls;
float demo_forward(int i) {
    calls++;
    return runtime_scale((float)demo_bin[i]) + (float)demo_layers[i] + (float)demo_memory[i] + (float)calls;
}
"""
RUNTIME_C = """
float runtime_factor = 3.0f;
float runtime_scale(float x) { return x * runtime_factor; }
"""
MAIN_C = """
extern float demo_forward(int);
int main(void);
volatile float result;
__attribute__((section(".vectors"), used)) static void *const vectors[3] = {0, (void *)main, 0};
int main(void) {
    for (int i = 0; i < 4; i++) result = demo_forward(i);
    return 0;
}
"""
MODEL_S = """
    .section .model,"a",%progbits
    .balign 16
    .global demo_bin
demo_bin:
    .incbin "model.bin"
    .section .colibri.ram,"aw",%nobits
    .balign 16
    .global demo_memory
demo_memory:
    .space 960
    .section .stack,"aw",%nobits
    .space 512
"""
SOURCES = {
    "demo.c": MODEL_C,
    "demo_data.S": MODEL_S,
    "runtime/core/scale.c": RUNTIME_C,
    "app/main.c": MAIN_C,
}
ARM = ("-mthumb", "-mcpu=cortex-m3")
COMPILE = ("-std=c11", "-O2", "-ffreestanding", "-ffp-contract=off", "-ffunction-sections", "-fdata-sections")


def estimated(code: int) -> CodeEstimate:
    """A prediction of code, with 40 bytes of tables and 8 of data."""
    return CodeEstimate(code, 40, 8, {}, "demo-board", "arm-none-eabi-gcc 12.2.1", Within(100, 20, 0))


def script(regions: tuple[Region, ...], sections: str) -> str:
    """A linker script: the regions of the board, then the given output sections."""
    memory = "".join(
        f"  {one.name.replace('-', '_')} (rwx) : ORIGIN = {one.origin:#x}, LENGTH = {one.length}\n" for one in regions
    )
    discard = "  /DISCARD/ : { *(.ARM.exidx*) *(.comment) *(.note*) *(.eh_frame*) }\n"
    return f"ENTRY(main)\nMEMORY\n{{\n{memory}}}\nSECTIONS\n{{\n{sections}{discard}}}\n"


PLAIN = """
  .vectors : { KEEP(*(.vectors)) } > flash
  .text : { *(.text*) } > flash
  .rodata : { *(.rodata*) } > flash
  .model : ALIGN(64) { KEEP(*(.model)) } > flash
  .data : { *(.data*) . = ALIGN(8); } > ram AT> flash
  .bss : { *(.bss*) *(COMMON) . = ALIGN(8); } > ram
  .colibri.ram (NOLOAD) : ALIGN(16) { *(.colibri.ram) } > ram
  .stack (NOLOAD) : ALIGN(8) { KEEP(*(.stack)) } > ram
"""
FLASH = Region("flash", MemoryKind.FLASH, 65536, 0x08000000, holds=(Holds.CODE, Holds.WEIGHTS))
RAM = Region("ram", MemoryKind.RAM, 16384, 0x20000000, holds=(Holds.DATA, Holds.STACK, Holds.ARENA))


@dataclass
class Firmware:
    """A package folder under test; each `link` replaces what was built in it."""

    folder: Path
    regions: tuple[Region, ...] = (FLASH, RAM)
    sections: str = PLAIN
    script: str = ""
    cflags: tuple[str, ...] = ARM
    compiler: str = "arm-none-eabi-gcc"
    kind: BoardKind = BoardKind.BARE
    reserve: int = 0
    code_estimate: CodeEstimate | None = None
    block: Block = BLOCK
    weights: tuple[Section, ...] = WEIGHTS
    sources: dict[str, str] = field(default_factory=lambda: dict(SOURCES))

    def package(self) -> Package:
        """The package's own description."""
        board = Board(
            id="demo-board",
            title="Demo board",
            sources=(),
            kind=self.kind,
            cpu=Cpu("arm", "Cortex-M3", fpu=False),
            kernels=("portable",),
            port="cortex_m",
            toolchain=Toolchain("arm-none-eabi-", "thumbv7m-none-eabi", self.cflags, ()),
            memory=self.regions,
            emulators=(),
            stack=512,
            reserve=self.reserve,
        )
        arena = next((region.name for region in self.regions if Holds.ARENA in region.holds), "ram")
        facts = ModelFacts("samples", "demo", 700, 4, 1, (2,), 1, "softmax, then the best")
        return Package(
            schema=SCHEMA,
            generator="test",
            name="demo",
            prefix="demo",
            board=board,
            scheme="w8a8",
            kv="f32",
            batch=1,
            prefill=1,
            context=0,
            model=facts,
            abi_hash="0",
            recipe_hash="0",
            model_bin_bytes=MODEL_BYTES,
            sections=self.weights,
            memory=Memory((msgspec.structs.replace(self.block, region=arena),), self.block.total),
            code_estimate=self.code_estimate,
        )

    def link(self, *, oversize: bool = False) -> Path:
        """Compile and link as a package's build file does; return the package's folder."""
        if shutil.which(self.compiler) is None:
            pytest.skip(f"{self.compiler} is not installed")
        build = self.folder / "build"
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        (self.folder / "model.bin").write_bytes(bytes(index * 7 % 256 for index in range(MODEL_BYTES)))
        objects = []
        for name, text in self.sources.items():
            source = self.folder / name
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(text)
            object_ = Path("build") / Path(name).with_suffix(".o").name
            objects.append(str(object_))
            self._run(*self.cflags, *COMPILE, "-c", name, "-o", str(object_))
        self.package().save(self.folder)
        name = "oversize" if oversize else "product"
        flags = ["-Wl,--gc-sections", f"-Wl,-Map=build/{name}.map", *(["-Wl,--noinhibit-exec"] if oversize else [])]
        if self.kind is BoardKind.BARE:
            (self.folder / "demo.ld").write_text(self.script or script(self.regions, self.sections))
            flags += [
                "-nostdlib",
                "-nostartfiles",
                "-Tdemo.ld",
                "-Wl,--print-memory-usage",
                "-Wl,--no-warn-rwx-segments",
            ]
        else:
            flags += ["-static"]
        usage = self._run(*self.cflags, *flags, *objects, "-lgcc", "-o", f"build/{name}.elf")
        if self.kind is BoardKind.BARE:
            (build / f"{name}.usage").write_text(usage)
        return self.folder

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([self.compiler, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
