"""What the rows of a report say, and when there is no report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from small_firmware import FLASH, PLAIN, RAM, WEIGHTS, Firmware, estimated

from colibri.boards.profile import BoardKind, Holds
from colibri.errors import BadInput, ColibriError, DoesNotFit
from colibri.footprint.attribute import GroupKind, attribute
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import Modelled, Report, make_report
from colibri.package import Section

ASSEMBLER_ONLY = {
    "demo.S": """
    .syntax unified
    .section .text.demo_forward,"ax",%progbits
    .global demo_forward
    .type demo_forward,%function
    .space 120
    .section .rodata.demo_layers,"a",%progbits
    .balign 4
    .space 20
    """,
    "runtime/core/scale.S": """
    .section .text.runtime_scale,"ax",%progbits
    .space 30
    .section .bss.scratch,"aw",%nobits
    .balign 4
    .space 9
    """,
    "app/main.S": """
    .syntax unified
    .section .vectors,"a",%progbits
    .word main
    .section .text.main,"ax",%progbits
    .balign 4
    .thumb
    .global main
    .thumb_func
    main: b main
    .space 6
    .section .data.seed,"aw",%progbits
    .balign 4
    .word 1
    """,
}
KEEP_ALL = PLAIN.replace("*(.text*)", "KEEP(*(.text*))").replace("*(.rodata*)", "KEEP(*(.rodata*))")
KEEP_ALL = KEEP_ALL.replace("*(.data*)", "KEEP(*(.data*))").replace("*(.bss*)", "KEEP(*(.bss*))")
KEEP_ALL = KEEP_ALL.replace("*(.colibri.ram)", "KEEP(*(.colibri.ram))")


def group(report: Report, region: str, kind: GroupKind) -> Group:
    use = next(use for use in report.regions if use.name == region)
    return next(one for one in use.groups if one.kind is kind)


def tree(parts: tuple[Part, ...]) -> dict[str, object]:
    return {part.name: tree(part.parts) if part.parts else part.bytes for part in parts}


def test_weights_by_layer_and_expert(firmware: Firmware) -> None:
    weights = group(make_report(firmware.link()), "flash", GroupKind.WEIGHTS)
    assert weights.bytes == weights.predicted == 896
    assert tree(weights.parts) == {
        "header": 40,
        "embedding": 333,
        "layer 0": {
            "router": {"layers.0.router": 32},
            "expert 0": {"layers.0.experts.0.up": 100, "layers.0.experts.0.down": 100},
            "expert 2": {"layers.0.experts.2.up": 100, "layers.0.experts.2.down": 100},
        },
        "alignment": 91,
    }


def test_code_by_owner_with_the_names_of_library_functions(firmware: Firmware) -> None:
    code = group(make_report(firmware.link()), "flash", GroupKind.CODE)
    owners = tree(code.parts)
    assert set(owners) == {"model", "runtime", "port and app", "compiler library"}
    assert list(owners["model"]) == ["demo_forward"]  # type: ignore[call-overload]
    assert list(owners["runtime"]) == ["runtime_scale"]  # type: ignore[call-overload]
    assert "__mulsf3" in owners["compiler library"]  # type: ignore[operator]


def test_memory_block_in_context_states_arena(firmware: Firmware) -> None:
    report = make_report(firmware.link())
    found = {kind: group(report, "ram", kind) for kind in (GroupKind.CONTEXT, GroupKind.STATES, GroupKind.ARENA)}
    assert {kind: (one.bytes, one.predicted) for kind, one in found.items()} == {
        GroupKind.CONTEXT: (48, 48),
        GroupKind.STATES: (208, 208),
        GroupKind.ARENA: (704, 704),
    }
    assert tree(found[GroupKind.STATES].parts) == {"keys": 100, "values": 100, "alignment": 8}
    assert group(report, "ram", GroupKind.STACK).bytes == 512


def test_no_prediction_of_code_is_none(firmware: Firmware) -> None:
    assert group(make_report(firmware.link()), "flash", GroupKind.CODE).predicted is None
    assert make_report(firmware.folder).modelled is None


def test_predictions_of_the_model_of_code(firmware: Firmware) -> None:
    firmware.code_estimate = estimated(1000)
    report = make_report(firmware.link())
    places = {"flash": (GroupKind.CODE, GroupKind.TABLES), "ram": (GroupKind.DATA,)}
    found = {kind: group(report, region, kind).predicted for region, kinds in places.items() for kind in kinds}
    assert found == {GroupKind.CODE: 1000, GroupKind.TABLES: 40, GroupKind.DATA: 8}
    assert report.modelled == Modelled(
        "demo-board", "arm-none-eabi-gcc 12.2.1", dict(zip(found, (100, 20, 0), strict=True))
    )


def test_nothing_is_unattributed(firmware: Firmware) -> None:
    report = make_report(firmware.link())
    assert not [one for use in report.regions for one in use.groups if one.kind is GroupKind.UNATTRIBUTED]


def test_bytes_that_the_map_does_not_name_are_unattributed(firmware: Firmware) -> None:
    map_file = firmware.link() / "build/product.map"
    lines = map_file.read_text().splitlines(keepends=True)
    start = next(index for index, line in enumerate(lines) if line.startswith(" .text.demo_forward"))
    assert lines[start + 1].split()[1].startswith("0x")
    del lines[start : start + 2]
    map_file.write_text("".join(lines))
    report = make_report(firmware.folder)
    assert group(report, "flash", GroupKind.UNATTRIBUTED).parts[0].name == ".text"


def test_json_is_stable(firmware: Firmware) -> None:
    firmware.sources = {**ASSEMBLER_ONLY, "demo_data.S": firmware.sources["demo_data.S"]}
    firmware.sections, firmware.code_estimate = KEEP_ALL, estimated(150)
    report = make_report(firmware.link())
    golden = Path(__file__).with_name("golden_report.json")
    assert report.to_json().decode() == golden.read_text()
    assert msgspec.json.decode(report.to_json(), type=Report) == report


def test_same_json_from_another_folder(firmware: Firmware, tmp_path: Path) -> None:
    first = make_report(firmware.link()).to_json()
    assert str(tmp_path).encode() not in first
    assert make_report(Firmware(tmp_path / "elsewhere" / "deeper").link()).to_json() == first


@pytest.mark.parametrize(
    ("change", "message", "code"),
    [
        (lambda text: text.replace(" B ", "1 B ", 1), "the linker printed", 70),
        (lambda text: text + "             ccm:         64 KB        64 KB    100.00%\n", "ccm", 5),
        (
            lambda text: "\n".join(line for line in text.splitlines() if "ram" not in line),
            "table lacks .* ram; build",
            5,
        ),
        (lambda text: "", "the linker's table lacks regions that the image uses: flash, ram; build", 5),
    ],
)
def test_a_linker_that_counts_otherwise_is_an_error(
    firmware: Firmware, change: Callable[[str], str], message: str, code: int
) -> None:
    usage = firmware.link() / "build/product.usage"
    usage.write_text(change(usage.read_text()))
    with pytest.raises(ColibriError, match=message) as caught:
        make_report(firmware.folder)
    assert caught.value.exit_code == code


@pytest.mark.parametrize(
    ("change", "sections"),
    [
        (lambda text: "", ".text, "),
        (lambda text: text[: text.index("\n.bss")], ".bss"),
        (lambda text: text.replace("\n.bss ", "\n.bsx "), ".bss"),
        (lambda text: re.sub(r"\n(\.bss\s+0x[0-9a-f]+\s+0x)", r"\n\g<1>1", text), ".bss"),
        (lambda text: re.sub(r"\n(\.bss\s+0x)", r"\n\g<1>1", text), ".bss"),
    ],
    ids=["empty", "cut short", "another section", "another length", "another address"],
)
def test_a_map_that_is_not_of_the_image(firmware: Firmware, change: Callable[[str], str], sections: str) -> None:
    map_file = firmware.link() / "build/product.map"
    map_file.write_text(change(map_file.read_text()))
    with pytest.raises(BadInput, match=f"the linker's map is not of this image: .*{re.escape(sections)}"):
        make_report(firmware.folder)


def test_a_region_that_the_image_does_not_touch_but_the_linker_filled(firmware: Firmware) -> None:
    firmware.regions = (FLASH, RAM, msgspec.structs.replace(RAM, name="ccm", origin=0x10000000, holds=()))
    usage = firmware.link() / "build/product.usage"
    assert make_report(firmware.folder).regions[2].used == 0
    text = usage.read_text()
    assert "ccm:          0 " in text
    usage.write_text(
        text.replace("ccm:          0 GB", "ccm:          4 KB").replace("ccm:          0 B ", "ccm:          4 KB")
    )
    with pytest.raises(ColibriError, match="ccm: the image has 0 bytes, the linker printed 4,096"):
        make_report(firmware.folder)


def test_rows_that_do_not_sum_are_an_error(firmware: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = firmware.link()
    monkeypatch.setattr("colibri.footprint.report.attribute", lambda *arguments: attribute(*arguments)[1:])
    with pytest.raises(ColibriError, match="flash: rows sum to") as caught:
        make_report(folder)
    assert caught.value.exit_code == 70


def test_without_the_linkers_table_there_is_no_comparison(firmware: Firmware) -> None:
    (firmware.link() / "build/product.usage").unlink()
    assert [region.printed for region in make_report(firmware.folder).regions] == [None, None]


def test_budget_and_reserve_count(firmware: Firmware) -> None:
    used = make_report(firmware.link()).regions[1].used
    firmware.regions = (FLASH, msgspec.structs.replace(RAM, budget=used + 99))
    firmware.reserve = 100
    report = make_report(firmware.link())
    assert report.over() == [("ram", 1)]
    with pytest.raises(DoesNotFit, match="ram by 1 byte"):
        report.require_fit()
    firmware.reserve = 99
    make_report(firmware.link()).require_fit()


def test_the_reserve_is_in_the_region_with_the_data(firmware: Firmware) -> None:
    """Not in that with the stack, nor in that with the arena."""
    firmware.sections = PLAIN.replace("KEEP(*(.stack)) } > ram", "KEEP(*(.stack)) } > ccm")
    stack = msgspec.structs.replace(RAM, name="ccm", origin=0x10000000, holds=(Holds.STACK, Holds.ARENA))
    firmware.regions = (FLASH, msgspec.structs.replace(RAM, holds=(Holds.DATA,)), stack)
    firmware.reserve = 100
    assert [(use.name, use.reserve) for use in make_report(firmware.link()).regions] == [
        ("flash", 0),
        ("ram", 100),
        ("ccm", 0),
    ]


def test_model_bin_longer_than_what_was_linked(firmware: Firmware) -> None:
    folder = firmware.link()
    longer = msgspec.structs.replace(firmware.package(), model_bin_bytes=5000)
    longer.save(folder)
    with pytest.raises(ColibriError, match="demo_bin is shorter"):
        make_report(folder)


def test_overlapping_sections_of_model_bin(firmware: Firmware) -> None:
    firmware.weights = (*WEIGHTS, Section("extra", "extra", 700, 10))
    with pytest.raises(ColibriError, match="overlap"):
        make_report(firmware.link())


def test_image_outside_the_boards_memory(firmware: Firmware) -> None:
    folder = firmware.link()
    firmware.regions = (FLASH, msgspec.structs.replace(RAM, origin=0x30000000))
    firmware.package().save(folder)
    with pytest.raises(ColibriError, match="0x20000000, which is in no region"):
        make_report(folder)


def test_symbol_missing(firmware: Firmware) -> None:
    firmware.sources = {name: text.replace("demo_bin", "other_bin") for name, text in firmware.sources.items()}
    with pytest.raises(ColibriError, match="no symbol demo_bin"):
        make_report(firmware.link())


def test_not_a_package_and_not_built(firmware: Firmware, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a Colibri package"):
        make_report(tmp_path)
    firmware.folder.mkdir()
    firmware.package().save(firmware.folder)
    with pytest.raises(BadInput, match="not built yet"):
        make_report(firmware.folder)


def test_image_that_is_no_elf(firmware: Firmware) -> None:
    (firmware.link() / "build/product.elf").write_bytes(b"not an ELF file")
    with pytest.raises(BadInput, match="not a readable ELF"):
        make_report(firmware.folder)


def test_linux_has_a_row_for_the_c_library(firmware: Firmware) -> None:
    firmware.compiler, firmware.cflags, firmware.kind = "gcc", (), BoardKind.LINUX
    firmware.regions = (
        msgspec.structs.replace(FLASH, name="image", origin=0, length=0),
        msgspec.structs.replace(RAM, origin=0, length=0),
    )
    report = make_report(firmware.link())
    assert [(use.name, use.limit, use.over, use.printed) for use in report.regions] == [
        ("image", 0, 0, None),
        ("ram", 0, 0, None),
    ]
    rows = tree(group(report, "image", GroupKind.CODE).parts)
    assert rows["C library"] > 100_000  # type: ignore[operator]
    assert group(report, "image", GroupKind.WEIGHTS).bytes == 896
    assert group(report, "ram", GroupKind.ARENA).bytes == 704


def test_a_dropped_expert_takes_its_bytes_along(firmware: Firmware) -> None:
    whole = make_report(firmware.link())
    firmware.weights = tuple(
        replace_bytes(section) if "expert 2" in section.part else section for section in firmware.weights
    )
    less = make_report(firmware.link())
    before, after = (group(one, "flash", GroupKind.WEIGHTS) for one in (whole, less))
    gone = {part.name: part.bytes for part in before.parts[2].parts}
    assert "expert 2" not in tree(after.parts)["layer 0"]  # type: ignore[operator]
    assert before.parts[2].bytes - after.parts[2].bytes == gone["expert 2"] == 200


def replace_bytes(section: Section) -> Section:
    return msgspec.structs.replace(section, bytes=0)
