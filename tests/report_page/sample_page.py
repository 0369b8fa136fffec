"""A report and its package made by hand, of any size and with any names."""

from __future__ import annotations

import msgspec

from colibri.boards.load import load_board
from colibri.boards.profile import MemoryKind
from colibri.footprint.attribute import GroupKind
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import SCHEMA, EmulatorNote, RegionUse, Report
from colibri.footprint.stack import StackBound, StackFrame, StackUse
from colibri.package import SCHEMA as PACKAGE_SCHEMA
from colibri.package import Block, Memory, ModelFacts, OpFact, Package, Span

EXPERT = 3000
HOSTILE = """</script><script>document.title='owned'</script><img src=x onerror="document.title='owned'">'"&{{ 7*7 }}"""


def summed(name: str, *parts: Part) -> Part:
    return Part(name, sum(part.bytes for part in parts), parts)


def group(kind: GroupKind, *parts: Part, predicted: int | None = None) -> Group:
    return Group(kind, sum(part.bytes for part in parts), predicted, parts)


def region(name: str, kind: MemoryKind, limit: int, *groups: Group, length: int | None = None) -> RegionUse:
    used = sum(one.bytes for one in groups)
    whole = limit if length is None else length
    return RegionUse(name, kind, 0, whole, limit, 0, used, used, max(0, used - limit) if limit else 0, groups)


def layer(index: int, experts: int) -> Part:
    return summed(
        f"layer {index}",
        summed("attention", *(Part(f"layers.{index}.{slot}", 900) for slot in "qkvo")),
        Part("router", 256),
        *(
            summed(
                f"expert {number}",
                *(Part(f"layers.{index}.experts.{number}.{slot}", EXPERT // 3) for slot in ("gate", "up", "down")),
            )
            for number in range(experts)
        ),
    )


def sample_report(*, layers: int = 2, experts: int = 4, flash: int = 100_000, name: str = "memset") -> Report:
    """Code, weights of some layers, and RAM; ``flash`` is the limit and ``name`` that of a function."""
    weights = group(
        GroupKind.WEIGHTS,
        Part("embedding", 2000),
        *(layer(index, experts) for index in range(layers)),
    )
    code = group(
        GroupKind.CODE,
        summed("model", Part("linear_w8a8_1x32x32", 1800), Part("rms_norm_1x32", 300)),
        summed("runtime", Part(name, 90)),
    )
    arena = group(GroupKind.ARENA, Part("buffers", 96), predicted=96)
    states = group(GroupKind.STATES, Part("layers.0.key", 256), predicted=250)
    path = (StackFrame("port_start", 8), StackFrame("main", 64), StackFrame(name, 128))
    return Report(
        schema=SCHEMA,
        package="sample",
        board="nucleo-h743zi",
        title="ST NUCLEO-H743ZI",
        scheme="w8a8",
        image="build/product.elf",
        linked=True,
        regions=(
            region("flash", MemoryKind.FLASH, flash, code, weights),
            region("sram", MemoryKind.RAM, 4096, states, arena),
            region("backup", MemoryKind.RAM, 512),
        ),
        emulators=(EmulatorNote("mps2-an500", "core", "The caches are not there."),),
        stack=StackUse(StackBound("port_start", 200, "", path), 108, 256, 576, 1024, ()),
    )


def sample_package(*, layers: int = 2, name: str = "x") -> Package:
    """Three ops a layer; at the second one all buffers but the last live."""
    ops, spans = [], []
    for index in range(layers):
        ops += [
            OpFact(f"layers.{index}.norm", index, "RmsNorm"),
            OpFact(f"layers.{index}.q", index, "Linear"),
            OpFact("mixed", index, "Experts"),
        ]
    starts = range(0, 3 * layers, 3)
    lives = {
        name: (0, 32, ((0, 3 * layers - 1),)),
        "normed": (32, 32, tuple((start, start + 1) for start in starts)),
        "q": (64, 32, tuple((start + 1, start + 2) for start in starts)),
        "mixed": (32, 16, tuple((start + 2, start + 2) for start in starts)),
    }
    base = 64 + 256
    spans = [
        Span(buffer, "arena", base + offset, size, live[0][0], live[-1][1], 0, live)
        for buffer, (offset, size, live) in lives.items()
    ]
    return Package(
        schema=PACKAGE_SCHEMA,
        generator="colibri 9.9",
        name="sample",
        prefix="sample",
        board=load_board("nucleo-h743zi"),
        scheme="w8a8",
        kv="f16",
        batch=0,
        prefill=1,
        context=64,
        model=ModelFacts("tokens", "mixtral", 12345, 0, 64, (4,) * layers, 2, "softmax, then top 2"),
        abi_hash="ab" * 16,
        recipe_hash="cd" * 16,
        model_bin_bytes=1000,
        sections=(),
        memory=Memory((Block("memory", "axi", 64, 256, 96, base + 96, 96, True, tuple(spans)),), base + 96),
        ops=tuple(ops),
    )


def without_ops(package: Package) -> Package:
    """As an older generator wrote it."""
    return msgspec.structs.replace(package, ops=())
