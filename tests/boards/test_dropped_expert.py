"""A dropped expert leaves no code, no table entry and no bytes behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_packages import EXAMPLES, Make

from colibri.boards.load import load_board
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.emit.model_bin import ENTRY
from colibri.footprint.groups import Part
from colibri.footprint.report import make_report
from colibri.generate import build_graph
from colibri.graph.coding import F32
from colibri.graph.graph import BufferKind
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.package import Package
from colibri.passes.kernels import KernelSet
from colibri.passes.pack import pack_matrix, plan_layouts
from colibri.toolchain.build import build


def leaves(part: Part, path: str = "") -> dict[str, int]:
    """Bytes by path of the smallest parts."""
    here = f"{path} / {part.name}" if path else part.name
    if not part.parts:
        return {here: part.bytes}
    return {name: size for inner in part.parts for name, size in leaves(inner, here).items()}


def flash_rows(folder: Path) -> dict[str, int]:
    region = next(region for region in make_report(folder).regions if region.name == "flash")
    rows = {}
    for group in region.groups:
        for part in group.parts:
            rows.update({f"{group.kind} / {name}": size for name, size in leaves(part).items()})
        if not group.parts:
            rows[str(group.kind)] = group.bytes
    assert sum(rows.values()) == region.used
    return rows


@pytest.mark.parametrize(("checkpoint", "layer"), [("load-moe/top1-e4", 0), ("shakespeare-moe", 2)])
def test_the_report_changes_by_exactly_its_size(checkpoint: str, layer: int, make: Make) -> None:
    whole = Options(Scheme.W4A8, context=None if "load" in checkpoint else 32)
    pruned = Options(Scheme.W4A8, context=whole.context, drop={layer: {1}})
    results: list[tuple[Path, Package, dict[str, int]]] = []
    for name, options in (("whole", whole), ("pruned", pruned)):
        folder, package = make(EXAMPLES / checkpoint, "nucleo-h743zi", options, name)
        build(folder, ["build/product.elf"])
        results.append((folder, package, flash_rows(folder)))
    (_, before, old), (folder, after, new) = results

    expert = f"weights / layer {layer} / expert 1"
    size = sum(s.bytes for s in before.sections if s.part == f"layer {layer} / expert 1")
    assert size > 0
    gone = {name: value for name, value in old.items() if name not in new and not name.startswith("code")}
    gone.pop("padding / between sections", None)
    gone.pop("weights / alignment", None)
    assert [name for name in gone if not name.startswith(f"{expert} / ")] == []
    assert sum(gone.values()) == size
    assert not any(s.part.endswith(f"layer {layer} / expert 1") for s in after.sections)

    changed = {
        name: old[name] - new[name]
        for name in new
        if name in old and old[name] != new[name] and not name.startswith(("code", "padding"))
    }
    # A row of the router, an entry of model.bin's table, an offset of the descriptor, "1," in the list of the manifest.
    router = changed.pop(f"weights / layer {layer} / router / layers.{layer}.router", 0)
    assert router == router_row(before, after, layer)
    assert changed.pop("weights / header and table") == ENTRY.size
    assert changed.pop("weights / manifest") == 2
    changed.pop("weights / alignment", None)
    if len(before.model.experts) == 1:
        assert changed.pop("tables / model / layer_table") == 4
    else:  # the layer with fewer experts has a table of its own
        assert (
            new["tables / model / layer_table"] + new.pop("tables / model / layer_2_table") + 4
            == old["tables / model / layer_table"]
        )
        changed.pop("tables / model / layer_table")
    assert changed == {}


def router_row(before: Package, after: Package, layer: int) -> int:
    """Bytes that the router gives back: whole tiles of rows, so none where the tile has room for its last row."""
    sizes = [
        next(s.bytes for s in package.sections if s.name == f"layers.{layer}.router") for package in (before, after)
    ]
    rows = KernelSet(before.board.kernels).tile(F32, BufferKind.FLOAT).rows
    tiles = [-(-package.model.experts[layer] // rows) for package in (before, after)]
    assert (sizes[0] > sizes[1]) == (tiles[0] > tiles[1])
    return sizes[0] - sizes[1]


def test_its_bytes_are_nowhere_in_the_image(make: Make) -> None:
    checkpoint = EXAMPLES / "load-moe" / "top2-e4-norm"
    graph = build_graph(Checkpoint.open(checkpoint), Options())
    layouts = plan_layouts(graph, KernelSet(load_board("stm32f405").kernels))
    weight = graph.matrix("layers.0.experts.2.up").load()
    packed = pack_matrix(weight, layouts.matrices["layers.0.experts.2.up"])
    images = []
    for name, options in (("whole", Options()), ("pruned", Options(drop={0: {2}}))):
        folder, _ = make(checkpoint, "stm32f405", options, name)
        build(folder, ["build/product.elf"])
        images.append((folder / "build/product.elf").read_bytes())
    assert packed in images[0]
    assert packed not in images[1]
    assert packed[-64:] not in images[1]
