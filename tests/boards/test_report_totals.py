"""The report against binutils, byte for byte, with both demo models."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from board_packages import EXAMPLES, PRUNED, Make
from report_checks import check_rows, check_totals
from selection import ROOMY, TELLING, with_elf

from colibri.footprint.attribute import GroupKind
from colibri.footprint.foreign import report_on_elf
from colibri.footprint.groups import Part
from colibri.footprint.report import make_report
from colibri.graph.scheme import Scheme
from colibri.options import Options
from colibri.toolchain.build import build
from colibri.toolchain.buildfiles import product_targets


def names(rows: tuple[Part, ...]) -> Iterator[str]:
    """Of the rows and of all below them."""
    for row in rows:
        yield row.name
        yield from names(row.parts)


@pytest.mark.parametrize(
    ("board", "model", "options"),
    [
        *((board, "load-moe/top1-e4", Options()) for board in with_elf(TELLING)),
        *((board, "shakespeare-moe", Options(Scheme.W4A8, context=32, drop=PRUNED)) for board in with_elf(ROOMY)),
        # Weights in two kinds of flash, and code in a third.
        ("mps3-an547", "load-moe/top1-e4", Options()),
        # Memory in two blocks.
        ("nucleo-h743zi", "shakespeare-moe", Options(Scheme.W4A8, prefill=8)),
    ],
)
def test_totals_are_those_of_binutils(board: str, model: str, options: Options, make: Make) -> None:
    folder, package = make(EXAMPLES / model, board, options)
    assert len(package.memory.blocks) == (2 if options.prefill else 1)
    build(folder, product_targets(package.board, package.board.toolchain.family))
    elf = folder / "build/product.elf"
    report = make_report(folder)
    alone = report_on_elf(elf)

    for one in (report, alone):
        assert check_rows(one) > 20
        assert "size -A" in check_totals(msgspec.structs.replace(one, image=report.image), package, folder)

    # On its own the program says the same of each region, of the weights and of the block.
    assert {one.name: one.used for one in alone.regions} == {one.name: one.used for one in report.regions}
    weights = [group for region in alone.regions for group in region.groups if group.kind is GroupKind.WEIGHTS]
    assert sum(group.bytes for group in weights) == sum(length for _, length, _ in package.weight_files())
    blocks = [group for region in alone.regions for group in region.groups if group.kind is GroupKind.ARENA]
    assert sum(group.bytes for group in blocks) == package.memory.total
    # Two files of weights have a row each, above their layers.
    experts = [name for group in weights for name in names(group.parts) if re.fullmatch(r"expert \d+", name)]
    assert len(experts) == sum(package.model.experts)
