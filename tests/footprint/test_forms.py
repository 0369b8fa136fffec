"""CSV, Markdown and files: the same bytes in each form."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from small_firmware import FLASH, RAM, Firmware, estimated

from colibri.cli import main
from colibri.footprint.attribute import GroupKind
from colibri.footprint.csv_form import report_csv
from colibri.footprint.groups import Group, Part
from colibri.footprint.markdown import report_markdown
from colibri.footprint.report import Report, make_report
from colibri.footprint.sources import read_report


@pytest.fixture
def report(firmware: Firmware) -> Report:
    firmware.code_estimate = estimated(400)
    firmware.reserve = 100
    return make_report(firmware.link())


def test_csv_columns_sum_to_the_report(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(report_csv(report))))
    assert list(rows[0]) == ["region", "group", "path", "linked", "predicted", "observed", "bound"]
    for region in report.regions:
        assert sum(int(row["linked"]) for row in rows if row["region"] == region.name) == region.used
        for group in region.groups:
            mine = [row for row in rows if (row["region"], row["group"]) == (region.name, group.kind)]
            assert sum(int(row["linked"]) for row in mine) == group.bytes
            predicted = [int(row["predicted"]) for row in mine if row["predicted"]]
            assert sum(predicted) == (group.predicted or 0) and bool(predicted) == (group.predicted is not None)
    assert any(row["path"] == "layer 0 / expert 0 / layers.0.experts.0.up" for row in rows)


def test_markdown_tables(report: Report) -> None:
    text = report_markdown(report)
    lines = text.splitlines()
    flash, ram = report.regions
    assert lines[0] == "### Footprint of demo · w8a8 · demo-board"
    assert f"| flash | {flash.used:,} | 65,536 | {100 * flash.used / 65536:.1f} % | {65536 - flash.used:,} |" in lines
    assert any(line.startswith(f"| ram | {ram.used:,} + 100 reserved | 16,384 |") for line in lines)
    assert text.count("<details>") == text.count("</details>") == 2
    assert "| **weights** | 896 | 896 |" in lines
    assert "| &emsp;&emsp;expert 0 | 200 |  |" not in lines
    assert any("experts 0, 2 (2 × " in line for line in lines)
    assert any("layers.0.experts.2.up" in line for line in report_markdown(report, full=True).splitlines())
    # Every row of a table has as many cells as its head.
    heads = [line.count("|") for line in lines if line.startswith("| ---")]
    assert {line.count("|") for line in lines if line.startswith("|")} == set(heads)


def test_markdown_takes_names_at_their_word(report: Report) -> None:
    import msgspec

    odd = Group(GroupKind.CODE, 5, None, (Part("a|b <script> *x* `y`\n# z", 5),))
    region = msgspec.structs.replace(report.regions[0], used=5, groups=(odd,))
    text = report_markdown(msgspec.structs.replace(report, regions=(region,), package="<b>"))
    assert r"a\|b &lt;script&gt; \*x\* \`y\` \# z" in text and "&lt;b&gt;" in text


def test_over_the_limit_is_bold(firmware: Firmware) -> None:
    import msgspec

    firmware.regions = (msgspec.structs.replace(FLASH, budget=1000), RAM)
    report = make_report(firmware.link())
    free = 1000 - report.regions[0].used
    assert free < 0 and f"| **{free:,}** |" in report_markdown(report)


def test_a_report_in_json_is_read_back(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(report.to_json())
    assert read_report(path) == report


def rows(depth: int) -> str:
    """Rows of 0 bytes inside each other."""
    return '[{"name": "x", "bytes": 0, "parts": ' * depth + "[]" + "}]" * depth


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"schema": 1', '"schema": 9'), "report schema 9, this Colibri reads 1"),
        (lambda text: text.replace('"used": ', '"used": 1'), "the rows do not sum"),
        (lambda text: text.replace('"name": "expert 0"', '"name": 3'), "not a report"),
        (lambda text: text[: len(text) // 2], "not a report"),
        (lambda text: text.replace('"schema": 1', '"schema": 9').replace('"title"', '"name"'), "report schema 9"),
        (
            lambda text: text.replace('"reserve": 0', '"reserve": -1'),
            "a number is too small - at `$.regions[0].reserve`",
        ),
        (
            lambda text: text.replace('"reserve": 0', f'"reserve": {10**400}'),
            "a number is too large - at `$.regions[0]",
        ),
        (
            lambda text: text.replace('"over": 0', '"over": 7', 1),
            "flash: what is over is not what is used and reserved",
        ),
        (lambda text: re.sub(r'"printed": \d+', '"printed": 7', text), "flash: the linker printed another number"),
        (lambda text: text.replace('"name": "ram"', '"name": "flash"'), "a report in which a region stands twice"),
        (lambda text: text.replace('"parts": []', f'"parts": {rows(400)}', 1), "not a report: nested too deeply"),
        (lambda text: text.replace('"parts": []', f'"parts": {rows(9000)}', 1), "not a report: nested too deeply"),
        (
            lambda text: (
                '{"board": "", "image": "", "linked": true, "package": "", "regions": [], "schema": 1, '
                '"scheme": "", "title": ""}'
            ),
            "a report without a region",
        ),
        (lambda text: text.replace("{", "[", 1), "neither a package, nor a report in JSON, nor an ELF file"),
    ],
)
def test_damaged_json(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str], change, message) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "report.json"
    path.write_text(change(report.to_json().decode()))
    assert main(["report", str(path)]) == 5
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1


@pytest.mark.parametrize("form", [[], ["--full"], ["--csv"], ["--markdown"], ["--annotate"], ["--json"]])
def test_names_in_json_say_nothing_to_a_terminal(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    path, name = tmp_path / "report.json", "a\\u001b[31m\\r\\n\\u202eb"
    text = report.to_json().decode().replace('"warn": 0', '"warn": 1')
    for key in ("board", "name", "package", "title"):
        text = text.replace(f'"{key}": "', f'"{key}": "{name}')
    path.write_text(text)
    assert main(["report", str(path), *form]) == 0
    out, err = capsys.readouterr()
    assert all(line.isprintable() for line in (out + err).splitlines()) and "warning: a\\x1b[31m" in err


def test_output_files(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "report.json"
    source.write_bytes(report.to_json())
    link = tmp_path / "link.csv"
    (tmp_path / "real.csv").write_text("old")
    link.symlink_to("real.csv")
    for form, name in (("--csv", "link.csv"), ("--markdown", "a.md"), ("--json", "a.json"), (None, "a.txt")):
        assert main(["report", str(source), *([form] if form else []), "-o", str(tmp_path / name)]) == 0
        assert capsys.readouterr() == ("", "")
    assert link.is_symlink() and (tmp_path / "real.csv").read_text() == report_csv(report)
    assert (tmp_path / "a.md").read_text() == report_markdown(report)
    assert (tmp_path / "a.json").read_bytes() == report.to_json()
    assert "\x1b" not in (tmp_path / "a.txt").read_text() and "demo-board" in (tmp_path / "a.txt").read_text()
    (tmp_path / "broken.txt").symlink_to("nothing.txt")
    assert main(["report", str(source), "-o", str(tmp_path / "broken.txt")]) == 2
    assert "broken.txt: is a link to nothing" in capsys.readouterr().err
    assert not (tmp_path / "nothing.txt").exists()
    assert main(["report", str(source), "-o", str(tmp_path / "none" / "a.txt")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
