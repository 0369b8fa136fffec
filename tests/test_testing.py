"""`colibri test`: what counts as equal, and every way in which answers can be wrong."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from small_models import make_package, sensor

from colibri.emulate.protocol import Response
from colibri.errors import BadInput, EmulatorFailed, UsageError
from colibri.package import Package
from colibri.testing import EmulatorResult, chosen_emulators, compare, read_cases
from colibri.vectors import NOT_FINITE, Answer, Case

CASES = [
    Case("initialise", "I", b"", (Answer(0, struct.pack("<I", 64)),)),
    Case("one", "S", b"", (Answer(0, struct.pack("<2f", 1.0, 0.0)), Answer(0, struct.pack("<2f", 2.0, 3.0)))),
    Case("refused", "F", b"", (Answer(NOT_FINITE, b""),)),
    Case("reset", "R", b"", (Answer(0, bytes(4)),)),
]
OUTPUTS = 4


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return make_package(sensor("top1-e3-tiny"), tmp_path_factory.mktemp("testing") / "p")


def right() -> list[Response]:
    """What a board without a fault answers."""
    return [Response(case.op, answer.status, answer.payload) for case in CASES for answer in case.answers]


def result(package: Package, responses: list[Response], exit_code: int = 0) -> EmulatorResult:
    return compare(package, package.board.emulators[0], CASES, responses, exit_code)


def found(package: Package, responses: list[Response]) -> list[tuple[str, str]]:
    outcome = result(package, responses)
    assert outcome.passed is not bool(outcome.mismatches)
    return [(mismatch.case, mismatch.what) for mismatch in outcome.mismatches]


def test_equal_answers_pass(package: Package) -> None:
    outcome = result(package, right())
    assert outcome.passed and (outcome.cases, outcome.outputs) == (len(CASES), OUTPUTS)
    assert (outcome.emulator, outcome.proves) == ("native", "machine")


def test_the_digest_is_over_status_and_bits_but_not_over_sizes(package: Package) -> None:
    """The first answers say how large file and block are, which differs between boards."""
    raw = struct.pack("<i2fi2f", 0, 1.0, 0.0, 0, 2.0, 3.0) + struct.pack("<i", NOT_FINITE) + bytes(8)
    assert result(package, right()).digest == hashlib.sha256(raw).hexdigest()
    smaller = right()
    smaller[0] = replace(smaller[0], payload=struct.pack("<I", 32))
    assert result(package, smaller).digest == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize(
    ("index", "change", "case", "what"),
    [
        (0, {"payload": struct.pack("<I", 65)}, "initialise", "1 of 1 outputs differ, first [0]: 00000041"),
        (1, {"payload": struct.pack("<2f", 1.0, -0.0)}, "one", "answer 0: 1 of 2 outputs differ, first [1]: 80000000"),
        (2, {"payload": struct.pack("<f", 2.0)}, "one", "answer 1: 1 words, expected 2"),
        (2, {"payload": struct.pack("<3f", 2.0, 3.0, 0.0)}, "one", "answer 1: 3 words, expected 2"),
        (2, {"status": -10}, "one", "answer 1: status -10, expected 0"),
        (2, {"status": 1}, "one", "answer 1: status 1, expected 0"),
        (3, {"status": 0}, "refused", "status 0, expected -11"),
        (3, {"payload": bytes(4)}, "refused", "1 words, expected 0"),
        (4, {"status": -2}, "reset", "status -2, expected 0"),
    ],
)
def test_one_wrong_answer(package: Package, index: int, change: dict, case: str, what: str) -> None:
    responses = right()
    responses[index] = replace(responses[index], **change)
    ((where, said),) = found(package, responses)
    assert where == case and said.startswith(what)
    if index:
        assert result(package, responses).digest != result(package, right()).digest


def test_the_first_difference_is_named_in_bits_and_as_a_number(package: Package) -> None:
    responses = right()
    responses[2] = replace(responses[2], payload=struct.pack("<2f", 2.5, 3.5))
    assert found(package, responses) == [
        ("one", "answer 1: 2 of 2 outputs differ, first [0]: 40200000 (2.5), expected 40000000 (2)")
    ]


def test_nan_is_compared_by_its_bits(package: Package) -> None:
    cases = [Case("nan", "F", b"", (Answer(0, struct.pack("<I", 0x7FC00000)),))]
    for bits, passed in ((0x7FC00000, True), (0xFFC00000, False), (0x7FC00001, False)):
        responses = [Response("F", 0, struct.pack("<I", bits))]
        assert compare(package, package.board.emulators[0], cases, responses, 0).passed is passed


def test_the_last_of_many_outputs_counts(package: Package) -> None:
    many = bytearray(4 * 100_000)
    cases = [Case("many", "S", b"", (Answer(0, bytes(many)),))]
    many[-1] = 0x80
    outcome = compare(package, package.board.emulators[0], cases, [Response("S", 0, bytes(many))], 0)
    assert [mismatch.what for mismatch in outcome.mismatches] == [
        "1 of 100000 outputs differ, first [99999]: 80000000 (-0), expected 00000000 (0)"
    ]


def test_answers_that_are_missing(package: Package) -> None:
    assert found(package, right()[:4]) == [("reset", "no answer")]
    assert found(package, right()[:2]) == [("one", "no answer"), ("refused", "no answer"), ("reset", "no answer")]
    assert len(found(package, [])) == len(CASES)


def test_answers_that_are_too_many(package: Package) -> None:
    assert found(package, [*right(), right()[-1]]) == [("the whole run", "6 answers, expected 5")]


def test_a_program_that_ends_with_an_error(package: Package) -> None:
    with pytest.raises(EmulatorFailed, match="x86-64-v3 on native: the test program ended with code 44"):
        result(package, right(), exit_code=44)


def test_emulators_by_name(package: Package) -> None:
    assert [emulator.name for emulator in chosen_emulators(package, ())] == ["native", "qemu-x86_64"]
    assert [emulator.name for emulator in chosen_emulators(package, ("qemu-x86_64",))] == ["qemu-x86_64"]
    with pytest.raises(UsageError, match="no emulator 'vax'; it has native, qemu-x86_64"):
        chosen_emulators(package, ("vax",))


def test_a_package_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no test vectors; generate the package again"):
        read_cases(tmp_path)
