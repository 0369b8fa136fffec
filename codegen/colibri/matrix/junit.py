"""A matrix as JUnit XML, in the form that Jenkins, GitLab and most actions of GitHub read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from colibri.matrix.model import Matrix, Result, State, same_digest

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FAILURES = {1: "bits differ", 3: "does not fit"}
_ERRORS = {4: "a tool is missing", 5: "bad input", 6: "build failed", 7: "emulator failed"}


def junit_xml(matrix: Matrix) -> str:
    """A test suite for each model, a test case for each of its boards.

    What does not fit, or has other bits, is a failure; what could not be tried is an error.
    """
    root = ET.Element("testsuites")
    for digest, results in matrix.models():
        name = f"{results[0].checkpoint} {results[0].recipe}"
        suite = ET.SubElement(root, "testsuite", name=_text(name))
        for result in results:
            _add(suite, result, digest)
        for key, element in (("failures", "failure"), ("errors", "error")):
            suite.set(key, str(len(suite.findall(f"testcase/{element}"))))
        suite.set("tests", str(len(results)))
        suite.set("skipped", "0")
        suite.set("time", f"{sum(result.seconds for result in results):.1f}")
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, result: Result, common: str) -> None:
    name = _text(f"{result.checkpoint}.{result.recipe}")
    case = ET.SubElement(suite, "testcase", classname=name, name=_text(_name(result)), time=f"{result.seconds:.1f}")
    what, kind = "", ""
    if same_digest(result.runs, common) is False and result.code not in _ERRORS:
        what, kind = "failure", _FAILURES[1]
    elif result.code in _FAILURES:
        what, kind = "failure", _FAILURES[result.code]
    elif result.code:
        what, kind = "error", _ERRORS.get(result.code, f"exit code {result.code}")
    if what:
        told = ET.SubElement(case, what, message=_text(result.error or kind), type=kind)
        told.text = _text(result.error)
    out = ET.SubElement(case, "system-out")
    out.text = _text(_facts(result))


def _name(result: Result) -> str:
    return f"{result.board} ({result.toolchain})" if result.toolchain else result.board


def _facts(result: Result) -> str:
    lines = [f"package: {result.package}"]
    if result.fits is not None:
        lines.append(f"flash: {result.flash} bytes, RAM: {result.ram} bytes, stack: {result.stack} bytes")
    for run in result.runs:
        state = f"{run.state}, digest {run.digest[:16]}" if run.digest else str(run.state)
        why = f": {run.why}" if run.state is not State.EQUAL and run.why else ""
        lines.append(f"{run.emulator} (proves the {run.proves}): {state}{why}")
    return "\n".join(lines)


def _text(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("?", text)
