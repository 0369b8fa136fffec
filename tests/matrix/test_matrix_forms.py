"""A matrix as a table, as Markdown and as JUnit XML, and its exit code."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
from matrix_results import ALL, DIGEST, FINE, GOOD, HERE, HOSTILE, HUNG, NO_TOOL, SMALL, WRONG

from colibri.cli.output import make_console
from colibri.matrix.junit import junit_xml
from colibri.matrix.model import Cell, Matrix, worst
from colibri.matrix.table import matrix_markdown, print_matrix


def table(matrix: Matrix, width: int = 100) -> str:
    file = io.StringIO()
    print_matrix(matrix, make_console(file, width))
    return file.getvalue()


def test_the_worst_code_stands_for_all() -> None:
    assert [worst(codes) for codes in ([], [0, 0], [0, 3], [3, 4], [4, 1, 3], [1, 5], [6, 7], [7, 70], [0, 99])] == [
        0, 0, 3, 4, 1, 5, 7, 70, 99,
    ]  # fmt: skip
    assert (ALL.code, FINE.code) == (7, 0)


def test_the_digest_is_what_most_runs_gave() -> None:
    assert ALL.digests() == {("/x/model", "w8a8"): DIGEST}
    assert ALL.totals() == "7 cells: 5 built, 4 fit, 3 ran, NOT all to the same bits"
    assert FINE.totals() == "2 cells: 2 built, 2 fit, 2 ran, all to the same bits"
    assert Matrix(1, (NO_TOOL,)).totals() == "1 cell: 0 built, 0 fit, 0 ran"


def test_two_models_of_one_name_are_two_models() -> None:
    other = msgspec.structs.replace(WRONG, source="/y/model")
    assert Matrix(1, (GOOD, other)).totals().endswith("all to the same bits")
    assert table(Matrix(1, (GOOD, other))).count("model, w8a8: ") == 2


def test_the_table_says_what_became_of_each() -> None:
    text = table(ALL)
    lines = {
        line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip() and ":" not in line.split()[0]
    }
    assert lines["good"] == ["gcc", "yes", "qemu", "(map)", "same", "10,000", "2,000", "196", "1,234,567"]
    assert lines["wrong"][:7] == ["gcc", "yes", "qemu", "(core):", "DIFFER", "1", "1"]
    assert lines["no-tool"][:3] == ["–", "not", "built"]
    assert "toolchain" not in table(Matrix(1, (GOOD, SMALL)))
    assert (
        "flash +1,234" in text
        and "small, gcc: small: the image" in text
        and "no-tool: board no-tool: x-gcc: not installed" in text
    )
    assert "\x1b" not in text and "\\x1b" in text
    assert "native" not in "".join(line for line in text.splitlines() if line.startswith("hung"))


@pytest.mark.parametrize(("matrix", "width"), [(FINE, 90), (Matrix(1, (GOOD, SMALL)), 80), (ALL, 120), (ALL, 400)])
def test_no_number_is_cut(matrix: Matrix, width: int) -> None:
    text = table(matrix, width)
    assert "1,234,567" in text and "10,000" in text and max(map(len, text.splitlines()[:12])) <= max(width, 80)


def test_markdown_escapes_and_sums() -> None:
    text = matrix_markdown(ALL)
    assert text.startswith("### model, `w8a8`\n\nAll that is the same has the digest `aaaaaaaaaaaaaaaa`.\n\n| board |")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[1] == "| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: |"  # words left, numbers right
    assert len(rows) == 2 + len(ALL.cells) and {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {11}
    assert "| good | gcc | yes | yes | qemu (map) | yes | 10,000 | 2,000 | 196 | 1,234,567 |" in rows
    assert "| small | gcc | yes | flash +1,234 | – | – | – | – | – | – |" in rows
    assert "native (machine), qemu (map)" in text and "<script>" not in text and "\x1b" not in text
    assert "- **no-tool**: board no-tool: x-gcc: not installed" in text and "**small**" not in text


def test_junit_has_the_elements_and_attributes_of_the_schema() -> None:
    """As in junit-10.xsd of Jenkins' xUnit plugin: names, order and types."""
    root = ET.fromstring(junit_xml(ALL))
    assert root.tag == "testsuites"
    (suite,) = root
    assert (suite.tag, set(suite.attrib)) == (
        "testsuite", {"name", "tests", "failures", "errors", "skipped", "time"},
    )  # fmt: skip
    counts = {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 7, "failures": 2, "errors": 3, "skipped": 0}
    assert float(suite.attrib["time"]) >= 0
    kinds = {}
    for case in suite:
        assert (case.tag, set(case.attrib)) == ("testcase", {"classname", "name", "time"})
        tags = [child.tag for child in case]
        assert tags in (["system-out"], ["failure", "system-out"], ["error", "system-out"])
        assert all(set(child.attrib) == {"message", "type"} for child in case if child.tag != "system-out")
        kinds[case.attrib["name"]] = [(child.tag, child.get("type")) for child in case][:-1]
    assert kinds == {
        "good (gcc)": [], "here (clang)": [], "small (gcc)": [("failure", "does not fit")],
        "wrong (gcc)": [("failure", "bits differ")], "no-tool": [("error", "a tool is missing")],
        "hung (gcc)": [("error", "emulator failed")],
        "b|d*<x>": [("error", "bad input")],
    }  # fmt: skip
    assert "equal, digest aaaaaaaaaaaaaaaa" in (suite[0].findtext("system-out") or "")


def test_junit_holds_any_text() -> None:
    said = ET.fromstring(junit_xml(Matrix(1, (HOSTILE,)))).find("testsuite/testcase/error")
    assert said is not None and said.text == "]]> & ?[31m ? <script> | ** ?"


def test_cells_have_folders_of_their_own() -> None:
    cells = [
        Cell("/x/a", "b", "w8a8"), Cell("/x/a", "b", "w8a8:kv=f16"), Cell("/y/a b", "b", "w8a8"),
        Cell("/y/a-b", "b", "w8a8"), Cell("/x/a", "/q/b.toml", "w8a8"), Cell("/x/a", "/r/b.toml", "w8a8"),
        Cell("/x/" + "n" * 300, "b", "w8a8:drop=" + ",".join(f"0.{i}" for i in range(99))), Cell("/x/..", "..", "w8a8"),
        Cell("/x/a", "b", "w8a8", "clang"), Cell("/x/a", "b", "w8a8", "/opt/gcc"),
        Cell("/x/a--b", "c", "w8a8"), Cell("/x/a", "b--c", "w8a8"),
    ]  # fmt: skip
    names = [cell.name for cell in cells]
    assert names[:2] == ["a--b--w8a8", "a--b--w8a8-kv-f16"] and len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9-][A-Za-z0-9._-]{0,99}", name) for name in names)


def test_json_is_the_matrix() -> None:
    matrix = Matrix(1, (GOOD, HERE, SMALL, WRONG, NO_TOOL, HUNG))
    assert msgspec.json.decode(matrix.to_json(), type=Matrix) == matrix
