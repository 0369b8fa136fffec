"""Budgets: what is read, what is over, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from colibri.boards.profile import MemoryKind
from colibri.cli import main
from colibri.cli.report import command
from colibri.errors import BadInput, DoesNotFit
from colibri.footprint.annotations import annotation_lines
from colibri.footprint.attribute import GroupKind
from colibri.footprint.budget import Budget, Finding, Level, check, load_budgets, require_budgets
from colibri.footprint.groups import Group, Part
from colibri.footprint.report import SCHEMA, RegionUse, Report
from colibri.footprint.stack import StackBound, StackUse

CODE = Group(GroupKind.CODE, 190, None, (Part("model", 150, (Part("fail", 150),)), Part("runtime", 40)))
WEIGHTS = Group(GroupKind.WEIGHTS, 410, 410, (Part("layer 0", 410, (Part("expert 0", 410),)),))
REPORT = Report(
    SCHEMA, "demo", "board", "A board", "w8a8", "build/product.elf", True,
    (RegionUse("flash", MemoryKind.FLASH, 0, 1000, 800, 0, 600, 600, 0, (CODE, WEIGHTS)),
     RegionUse("ram", MemoryKind.RAM, 0, 100, 100, 0, 0, 0, 0, ())),
)  # fmt: skip


def budgets(tmp_path: Path, text: str) -> tuple[Budget, ...]:
    path = tmp_path / "budget.toml"
    path.write_text(text)
    return load_budgets(path)


def found(tmp_path: Path, text: str) -> list[tuple[str, str, int]]:
    findings = check(REPORT, budgets(tmp_path, text), "budget.toml")
    return [(one.level.value, "/".join(one.path), one.over) for one in findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[flash]\nwarn = 600\nfail = 600", []),
        ("[flash]\nwarn = 599\nfail = 600", [("warn", "flash", 1)]),
        ("[flash]\nwarn = 500\nfail = 550", [("fail", "flash", 50)]),
        ("[flash.code]\nfail = 189", [("fail", "flash/code", 1)]),
        ("[flash.code.model]\nwarn = 100", [("warn", "flash/code/model", 50)]),
        ('[flash.weights."layer 0"."expert 0"]\nfail = 0', [("fail", "flash/weights/layer 0/expert 0", 410)]),
        # A function of the name of a key is no key.
        ("[flash.code.model.fail]\nfail = 10", [("fail", "flash/code/model/fail", 140)]),
        # What is not there takes nothing.
        ("[ram]\nfail = 0\n[ram.arena]\nfail = 0", []),
    ],
)
def test_what_is_over(tmp_path: Path, text: str, expected: list[tuple[str, str, int]]) -> None:
    assert found(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[flahs]\nfail = 1", "did you mean 'flash'?"),
        ("[flash.cod]\nfail = 1", "did you mean 'code'?"),
        # As the table calls it, or a linker script.
        ("[ram.'.data and .bss']\nfail = 1", "did you mean 'data'?"),
        ("[ram.'stack reserve']\nfail = 1", "did you mean 'stack'?"),
        ("[ram.'Stack reserve']\nfail = 1", "did you mean 'stack'?"),
        ("[ram.'.bss']\nfail = 1", "did you mean 'data'?"),
        ("[flash.constants]\nfail = 1", "did you mean 'tables'?"),
        ("[flash.other]\nfail = 1", "known: arena, code,"),
        ("[flash.code.modle]\nfail = 1", "did you mean 'model'?"),
        ('[flash.weights."layer 0"."expert 9"]\nfail = 1', "did you mean 'expert 0'?"),
        ("[ram.arena.buffers]\nfail = 1", "the report has nothing there"),
        ("[flash]\nfial = 1", "did you mean 'fail'?"),
        ("fail = 1", "outside every region"),
        ("[flash]\nfail = true", "a number of bytes is wanted"),
        ("[flash]\nfail = -1", "a number of bytes is wanted"),
        ("[flash]\nfail = '1 MB'", "a number of bytes is wanted"),
        ("[flash]\nwarn = 2\nfail = 1", "warn is above fail"),
        ("[flash]", "neither warn nor fail"),
        ("", "no budget inside"),
        ("[flash", "not TOML"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        found(tmp_path, text)
    assert message in str(raised.value) and "budget.toml" in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_bytes(b"\xff\xfe[flash]")
    with pytest.raises(BadInput, match="not UTF-8 text: line 1"):
        load_budgets(path)
    with pytest.raises(BadInput, match="no such file"):
        load_budgets(tmp_path / "none.toml")


def test_only_fail_fails() -> None:
    warning = Finding(Level.WARN, ("flash",), 600, 0, 500, 100, "b.toml")
    require_budgets((warning,), "b.toml")
    with pytest.raises(DoesNotFit, match=r"b\.toml: over budget: flash / code by 1 byte"):
        require_budgets((warning, Finding(Level.FAIL, ("flash", "code"), 190, 0, 189, 1, "b.toml")), "b.toml")


def test_the_board_has_its_own_budget() -> None:
    import msgspec

    region = msgspec.structs.replace(REPORT.regions[0], limit=550, reserve=10, over=60)
    report = msgspec.structs.replace(REPORT, regions=(region,))
    (finding,) = check(report, (), "")
    assert str(finding) == "flash: 600 bytes and 10 reserved, 60 bytes over the board's limit of 550 (fail)"
    assert finding.level is Level.FAIL


def test_the_board_may_warn_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Used and reserved together, above the level; one that fails too is said once."""
    import msgspec

    def report(**changes: int) -> Report:
        region = msgspec.structs.replace(REPORT.regions[0], reserve=10, **changes)
        return msgspec.structs.replace(REPORT, regions=(region, REPORT.regions[1]))

    assert check(report(warn=610), (), "") == check(report(), (), "") == ()
    (finding,) = check(report(warn=609), (), "")
    assert str(finding) == "flash: 600 bytes and 10 reserved, 1 byte over the board's limit of 609 (warn)"
    assert [one.level for one in check(report(warn=500, limit=550, over=60), (), "")] == [Level.FAIL]

    path = tmp_path / "report.json"
    path.write_bytes(report(warn=609).to_json())
    assert main(["report", str(path), "--annotate"]) == 0
    out, err = capsys.readouterr()
    assert err == f"colibri: warning: {finding}\n"
    assert f"::warning title=flash above its warning level::{finding}\n" in out
    # A budget file's failure is the last line, as without the warning.
    (tmp_path / "b.toml").write_text("[flash]\nfail = 599")
    assert main(["report", str(path), "--budget", str(tmp_path / "b.toml"), "--json"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said == [f"colibri: warning: {finding}", "colibri: b.toml: over budget: flash by 1 byte"]


def test_a_stack_that_is_too_small_is_the_boards_own_limit_too() -> None:
    import msgspec

    bound = StackBound("main", 500)
    stack = StackUse(program=bound, exception=40, margin=64, needed=640, reserve=512, entries=())
    (finding,) = check(msgspec.structs.replace(REPORT, stack=stack), (), "")
    assert str(finding) == "stack: 540 bytes, 28 bytes over the board's limit of 512 (fail)"
    assert check(msgspec.structs.replace(REPORT, stack=msgspec.structs.replace(stack, reserve=540)), (), "") == ()


def test_annotations_are_one_line_each_and_escaped() -> None:
    findings = (
        Finding(Level.FAIL, ("flash", "code", "a:b,c"), 600, 0, 500, 100, "50%\n.toml"),
        Finding(Level.WARN, ("ram",), 9, 0, 8, 1, "b.toml"),
    )
    error, warning = annotation_lines(REPORT, findings).splitlines()
    assert error.startswith("::error title=flash / code / a%3Ab%2Cc over budget::flash / code / a:b,c: 600 bytes")
    assert "50%25%0A.toml" in error
    assert (
        warning
        == "::warning title=ram above its warning level::ram: 9 bytes, 1 byte over the limit of 8 in b.toml (warn)"
    )
    assert annotation_lines(REPORT, ()) == "::notice title=footprint of demo::flash 600 of 800 bytes\n"


@pytest.mark.parametrize(("limits", "code"), [("warn = 100", 0), ("fail = 100", 3), ("fail = 600", 0)])
def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: str, code: int) -> None:
    (tmp_path / "report.json").write_bytes(REPORT.to_json())
    (tmp_path / "budget.toml").write_text(f"[flash]\n{limits}\n")
    arguments = ("report", str(tmp_path / "report.json"), "--budget", str(tmp_path / "budget.toml"))
    assert main([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert out.encode() == REPORT.to_json()
    assert err.count("\n") == (0 if "600" in limits else 1)
    assert main([*arguments, "--annotate"]) == code
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    over = {"warn": "::warning", "fail": "::error"}[limits[:4]]
    assert [line.split()[0] for line in lines] == ["::notice" if "600" in limits else over]


def test_the_name_of_the_file_says_nothing_to_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_bytes(REPORT.to_json())
    budget = tmp_path / "a\x1b[31m\nb.toml"
    budget.write_text("[flash]\nwarn = 100\n")
    assert main(["report", str(tmp_path / "report.json"), "--budget", str(budget), "--markdown"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out and err.endswith("over the limit of 100 in a\\x1b[31m\\nb.toml (warn)\n")


def test_forms_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(REPORT.to_json())
    for arguments in (("--json", "--csv"), ("--csv", "--annotate")):
        result = CliRunner().invoke(command, [str(tmp_path / "report.json"), *arguments])
        assert getattr(result.exception, "exit_code", None) == 2 and result.output == ""
