"""`colibri report`: flash and RAM of a built package or a program, alone or compared with another."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from colibri.checkpoint.untrusted import is_folder
from colibri.cli.options import FILE
from colibri.cli.output import make_console, write_text
from colibri.errors import UsageError, shown

if TYPE_CHECKING:
    from rich.console import Console

    from colibri.footprint.budget import Finding
    from colibri.footprint.diff import Diff
    from colibri.footprint.report import Report
    from colibri.package import Package
    from colibri.profile.model import Profile

_WIDTH_IN_A_FILE = 100


class Form(StrEnum):
    """How a report is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


@click.command("report", short_help="Flash and RAM of a package or a program, region by region.")
@click.argument("source", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a line for each row without others below it.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print tables for a pull request.")
@click.option("--html", "as_html", is_flag=True, help="Write a page to look at, PACKAGE/report.html without -o.")
@click.option("--full", is_flag=True, help="Give each expert, function and table a row of its own.")
@click.option("--diff", "old", type=FILE, metavar="OLD", help="Compare with an older SOURCE.")
@click.option("--budget", type=FILE, metavar="FILE", help="Warn or fail above the bytes in FILE.")
@click.option("--observe", is_flag=True, help="Run the test program in the emulators and show what it touched.")
@click.option("--profile", is_flag=True, help="Count instructions in an emulator, for the page of --html.")
@click.option("--data", type=FILE, metavar="FILE", help="Tokens or samples for --profile.  [default: pseudo-random]")
@click.option("--profile-from", type=FILE, metavar="FILE", help="Show what `colibri profile --json` saved in FILE.")
@click.option("--annotate", is_flag=True, help="Print what is over as lines that GitHub shows.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the report to a file.")
def command(
    source: Path,
    as_json: bool,
    as_csv: bool,
    as_markdown: bool,
    as_html: bool,
    full: bool,
    old: Path | None,
    budget: Path | None,
    observe: bool,
    profile: bool,
    data: Path | None,
    profile_from: Path | None,
    annotate: bool,
    output: Path | None,
) -> None:
    """Show the flash and RAM that SOURCE takes, region by region.

    SOURCE is a built package, an ELF file that has a Colibri model inside, or a report in JSON.

    Exits with 3 when it is more than the board, its budget or FILE allows; the report comes all the same.

    Example: colibri report build/sensor --diff old.json --budget budget.toml
    """
    from colibri.footprint.annotations import annotation_lines
    from colibri.footprint.budget import check, load_budgets, require_budgets
    from colibri.footprint.diff import compare
    from colibri.footprint.sources import read_alike, read_report

    form = _form({Form.JSON: as_json, Form.CSV: as_csv, Form.MARKDOWN: as_markdown, Form.HTML: as_html})
    if form is Form.HTML:
        output = _page_file(source, output, compared=old is not None)
    if annotate and output is None and form is not Form.TABLE:
        raise UsageError(f"--annotate and --{form} both want standard output", hint="add -o FILE")
    _check_profile_options(form, source, profile, data, profile_from)
    budgets, budget_name = (load_budgets(budget), shown(budget.name)) if budget else ((), "")
    report = read_alike(source, old) if old else read_report(source)
    if observe:
        report = _observed(source, report)
    diff = compare(read_alike(old, source), report) if old else None
    findings = check(report, budgets, budget_name)

    if form is Form.TABLE and output is None:
        _print_table(report, diff, make_console(), full)
    else:
        counted = _profile(source, report, data, profile_from) if profile or profile_from else None
        text = _page(source, report, counted) if form is Form.HTML else _text(form, report, diff, findings, full)
        if output is None:
            click.echo(text, nl=False)
        else:
            write_text(output, text)
            if form is Form.HTML:
                click.echo(f"page: {output}", err=True)
    if annotate:
        click.echo(annotation_lines(report, findings), nl=False)
    print_warnings(findings)
    report.require_fit()
    require_budgets(findings, budget_name)


def _observed(source: Path, report: Report) -> Report:
    """Runs the test program; only a package has one."""
    from colibri.footprint.observed import with_observed
    from colibri.observe import observe
    from colibri.package import load_package

    if not is_folder(source):
        raise UsageError("needs a package, which has a test program to run", where="--observe")
    seen = observe(source)
    if not seen:
        click.echo("colibri: warning: nothing is observed, no emulator of the board shows it", err=True)
    return with_observed(report, seen, load_package(source))


def _page_file(source: Path, output: Path | None, *, compared: bool) -> Path:
    from colibri.footprint.html import FILE_NAME

    if compared:
        raise UsageError("--html and --diff exclude each other", hint="compare with --markdown")
    if output is None and not is_folder(source):
        raise UsageError("--html has no package to write into", hint="add -o FILE")
    return output or source / FILE_NAME


def _page(source: Path, report: Report, profile: Profile | None) -> str:
    from colibri.footprint.html import render_html, render_page

    if is_folder(source):
        return render_html(source, report=report, profile=profile)
    return render_page(report, profile=profile)


def _check_profile_options(
    form: Form, source: Path, profile: bool, data: Path | None, profile_from: Path | None
) -> None:
    option = "--profile" if profile else "--profile-from" if profile_from else ""
    if option and form is not Form.HTML:
        raise UsageError(f"{option} is for the page", hint="add --html, or see `colibri profile`")
    if profile and profile_from:
        raise UsageError("--profile and --profile-from exclude each other", hint="give one of them")
    if data and not profile:
        raise UsageError("--data is for --profile", hint="add --profile")
    if profile and not is_folder(source):
        raise UsageError("needs a package, which has a test program to run", where="--profile")


def _profile(source: Path, report: Report, data: Path | None, saved: Path | None) -> Profile:
    """Runs the test program under the plugin, or reads what such a run gave."""
    from colibri.package import load_package

    package = load_package(source) if is_folder(source) else None
    if saved is not None:
        from colibri.profile.read import read_profile, require_profile_of

        profile = read_profile(saved)
        require_profile_of(profile, name=report.package, board=report.board, package=package, where=str(saved))
        return profile
    from colibri.profile.inputs import MOST, built_in, read_inputs
    from colibri.profile.profile import default_emulator, make_profile

    assert package is not None
    inputs = built_in(package) if data is None else read_inputs(data, package, MOST)
    return make_profile(source, package, default_emulator(package.board), inputs)


def _form(wanted: dict[Form, bool]) -> Form:
    chosen = [form for form, given in wanted.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other", hint="give one of them")
    return chosen[0] if chosen else Form.TABLE


def _text(form: Form, report: Report, diff: Diff | None, findings: tuple[Finding, ...], full: bool) -> str:
    if form is Form.JSON:
        return (diff or report).to_json().decode()
    if form is Form.CSV:
        from colibri.footprint.csv_form import diff_csv, report_csv

        return diff_csv(diff) if diff else report_csv(report)
    if form is Form.MARKDOWN:
        from colibri.footprint.markdown import diff_markdown, report_markdown

        if diff:
            return diff_markdown(diff, findings, full=full)
        return report_markdown(report, findings, full=full)
    file = io.StringIO()
    _print_table(report, diff, make_console(file, _WIDTH_IN_A_FILE), full)
    return file.getvalue()


def _print_table(report: Report, diff: Diff | None, console: Console, full: bool) -> None:
    if diff:
        from colibri.footprint.diff_table import print_diff

        print_diff(diff, console, full=full)
    else:
        from colibri.footprint.table import print_report

        print_report(report, console, full=full)


def print_notes(package: Package) -> None:
    """Print what generation did to the weights that the user may not want."""
    for warning in package.warnings:
        click.echo(f"colibri: warning: {warning}", err=True)


def print_warnings(findings: tuple[Finding, ...]) -> None:
    """Print warnings, and what the last line will not name because the board itself is too small."""
    from colibri.footprint.budget import Level

    of_board = any(finding.of_board and finding.level is Level.FAIL for finding in findings)
    for finding in findings:
        if finding.level is Level.WARN:
            click.echo(f"colibri: warning: {finding}", err=True)
        elif of_board and not finding.of_board:
            click.echo(f"colibri: over budget: {finding}", err=True)
