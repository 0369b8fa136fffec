"""Every dot kernel of every folder, on packed matrices, against the exact sums."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dot_programs import BOARDS, EMULATORS, FORMS, Case, Dot, DotProgram, build_dot
from small_models import integer_matrix

from colibri.boards.load import load_board
from colibri.boards.profile import EmulatorKind
from colibri.graph.coding import F32, FACTOR_MAX, FP4, FP4_SHIFT_MAX, W4, Coding
from colibri.graph.float32 import canonical, matvec
from colibri.graph.graph import BufferKind
from colibri.graph.weights import Matrix
from colibri.passes.grid import round_matrix, to_f16
from colibri.passes.quantise import activation_limit

KINDS = (BufferKind.Q8, BufferKind.Q16)
ROWS = (1, 2, 3, 4, 5, 8, 12, 13, 24)
COLUMNS = (1, 2, 12, 13, 16, 17, 24, 31, 32, 33, 64, 100)
# 12 * 2^20 * 32767 * 21846 is just below 2^53: the most that fp4a16 may sum.
LONGEST_OF_FP4 = 21846


def is_emulated(folder: str) -> bool:
    """Whether its kernels do not run on this machine."""
    return load_board(BOARDS[folder]).emulators[0].kind is not EmulatorKind.NATIVE


def kernels(*, native: bool = False, at_once: bool = False) -> pytest.MarkDecorator:
    """Run a test with each kernel, or with those that run on this machine, or that take several inputs at once."""
    params = []
    for folder in BOARDS:
        emulated = is_emulated(folder)
        if not (native and emulated):
            marks = [pytest.mark.emulator] if emulated else []
            dots = [Dot(folder, *form) for form in FORMS]
            wider = [Dot(folder, (replace(W4, group=group),), kind) for group in (64, 128) for kind in KINDS]
            dots += [dot for dot in wider if dot.tile.any_group]
            dots = [replace(dot, emulator=one) for dot in dots for one in EMULATORS.get(folder, ("",))]
            params += [
                pytest.param(dot, id=str(dot), marks=marks)
                for dot in dots
                if dot.own and (not at_once or dot.inputs > 1)
            ]
    return pytest.mark.parametrize("dot", params)


def random_case(dot: Dot, rng: np.random.Generator, n: int, k: int, *places: int) -> Case:
    """Weights over a coding's whole range, activations up to the limit of the length."""
    coding = dot.forms[rng.integers(len(dot.forms))]
    if coding.format.floating:
        dense, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, k), k))
        return Case(round_matrix(Matrix(F32, (n, k), dense), coding), x, *places)
    limit = activation_limit(coding, dot.kind, k, "case")
    return Case(integer_matrix(coding, n, k, rng), rng.integers(-limit, limit + 1, k).astype(dot.dtype), *places)


def extreme_cases(dot: Dot, n: int, k: int) -> list[Case]:
    """All weights, activations and group scales at an end of their range, signs alike, opposed and alternating."""
    return [case for coding in dot.forms for case in _extremes(dot, coding, n, min(k, most_columns(coding)))]


def most_columns(coding: Coding) -> int:
    """With which 8-bit activations have their whole range; of fp4 16-bit ones."""
    if coding == FP4:
        return LONGEST_OF_FP4
    return (2**31 - 1) // (127 * coding.largest_sum(1))


def _extremes(dot: Dot, coding: Coding, n: int, k: int) -> list[Case]:
    limit, ends = activation_limit(coding, dot.kind, k, "case"), coding.limits
    shape = n, coding.groups(k)
    factors = [None]
    if coding.format.grouped:
        tops = [FP4_SHIFT_MAX] if coding == FP4 else [FACTOR_MAX] if coding.zero else [FACTOR_MAX, -FACTOR_MAX]
        factors = [np.full(shape, top, np.uint8 if coding == FP4 else np.int8) for top in tops]
    zeros = [np.full(shape, zero, np.uint8) for zero in (0, 255)] if coding.zero else [None]
    turns = np.where(np.arange(k) % 2, 1, -1)
    cases = []
    for weight in (*(np.full((n, k), end) for end in ends), np.where(turns > 0, *ends) * np.ones((n, 1))):
        for x in (np.full(k, limit), np.full(k, -limit), turns * limit):
            for factor, zero in itertools.product(factors, zeros):
                scale = np.ones(n, np.float32)
                matrix = Matrix(coding, (n, k), None, weight.astype(np.int8), scale, factor, zeros=zero)
                cases.append(Case(matrix, x.astype(dot.dtype)))
    return cases


def special_cases(coding: Coding, n: int, k: int) -> list[Case]:
    """Float rows with denormals, infinities, NaN, signed zeros, and sums whose order shows."""
    rng = np.random.default_rng(k)
    special = np.array([0.0, -0.0, 1e-45, -1e-40, 1e-38, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
    cases = []
    for share in (0.0, 0.02, 0.3, 1.0):
        dense = (rng.standard_normal((n, k)) * 10.0 ** rng.integers(-20, 18, (n, k))).astype(np.float32)
        x = (rng.standard_normal(k) * 10.0 ** rng.integers(-20, 18, k)).astype(np.float32)
        dense = np.where(rng.random((n, k)) < share, rng.choice(special, (n, k)), dense).astype(np.float32)
        x = np.where(rng.random(k) < share, rng.choice(special[:7], k), x).astype(np.float32)
        cases.append(Case(Matrix(coding, (n, k), dense if coding == F32 else to_f16(np.nan_to_num(dense))), x))
    return cases


def right(case: Case) -> np.ndarray:
    """What the numpy reference sums up to, before any scale."""
    if case.matrix.format.floating:
        assert case.matrix.dense is not None
        with np.errstate(all="ignore"):
            return canonical(matvec(case.x[None], case.matrix.dense)[0])
    sums = case.matrix.combined.astype(np.int64) @ case.x.astype(np.int64)
    assert np.abs(sums).max() < (2**53 if case.matrix.coding == FP4 else 2**31)
    return sums.astype(np.int64 if case.matrix.coding == FP4 else np.int32)


def check(program: DotProgram, cases: list[Case]) -> None:
    """Every sum has the right bits."""
    for case, got in zip(cases, program.run(cases), strict=True):
        if case.matrix.format.floating:
            got = canonical(got)
        assert got.tobytes() == right(case).tobytes(), (case.matrix.shape, case.weight_offset, case.value_offset)


def shapes_and_places(dot: Dot) -> list[Case]:
    """Rows and columns below, at and above the tile's, and every place that an element may have."""
    rng = np.random.default_rng(1)
    cases = [random_case(dot, rng, n, k) for n in ROWS for k in COLUMNS]
    value = dot.value_bytes
    weight = dot.element_bytes
    cases += [random_case(dot, rng, 5, 40, at, 0) for at in range(0, 16, weight)]
    cases += [random_case(dot, rng, 5, 40, 0, at) for at in range(0, 16, value)]
    return [*cases, random_case(dot, rng, 5, 40, 16 - weight, 16 - value)]


@kernels()
def test_shapes_and_places(dot: Dot, tmp_path: Path) -> None:
    check(build_dot(dot, tmp_path), shapes_and_places(dot))


@kernels()
def test_ends_of_the_range(dot: Dot, tmp_path: Path) -> None:
    program = build_dot(dot, tmp_path)
    if dot.kind is BufferKind.FLOAT:
        shapes = [(1, 200), (9, 64), (24, 13)]
        check(program, [case for n, k in shapes for case in special_cases(dot.form, n, k)])
    else:
        # Kernels of small cores empty a sum of 24 bits every 512 columns; more than 4096 are too many for their RAM.
        shapes = [(3, 12), (4, 32), (5, 64), (1, LONGEST_OF_FP4 if dot.form == FP4 else 4096)]
        check(program, [case for n, k in shapes for case in extreme_cases(dot, n, k)])


@kernels(native=True)
def test_no_undefined_behaviour_and_no_read_beyond_the_end(dot: Dot, tmp_path: Path) -> None:
    ends = special_cases(dot.form, 3, 13) if dot.kind is BufferKind.FLOAT else extreme_cases(dot, 3, 416)
    check(build_dot(dot, tmp_path, sanitize=True), shapes_and_places(dot) + ends)


def several(dot: Dot, case: Case, rng: np.random.Generator) -> Case:
    """The case's matrix with several inputs: that of the case among its own values in other orders."""
    return replace(case, x=np.stack([case.x, *(rng.permutation(case.x) for _ in range(dot.inputs - 1))]))


def rarely_large(dot: Dot, n: int, k: int) -> list[Case]:
    """Weights at their ends with activations around half of theirs, and some large: kernels may take these apart."""
    rng = np.random.default_rng(3)
    middle = activation_limit(dot.form, dot.kind, k, "case") // 2 + 1
    some = []
    for share in (0.0, 0.005, 0.02, 0.05):
        sizes = np.where(rng.random(k) < share, 2 * middle - 1, middle + (rng.random(k) < 0.1))
        some += [(sizes * sign).astype(dot.dtype) for sign in (1, -1, rng.choice((-1, 1), k))]
    return [replace(case, x=x) for case in extreme_cases(dot, n, k) for x in some]


@kernels(at_once=True)
def test_several_inputs_at_once(dot: Dot, tmp_path: Path) -> None:
    """Each input has the sums that it has alone; the last of them ends where its array does."""
    rng = np.random.default_rng(2)
    every = [*shapes_and_places(dot), *extreme_cases(dot, 17, 1024), *rarely_large(dot, 17, 416)]
    cases = [several(dot, case, rng) for case in every]
    for sanitize in (False,) if is_emulated(dot.folder) else (False, True):
        program = build_dot(dot, tmp_path, sanitize=sanitize, at_once=True)
        for case, got in zip(cases, program.run(cases), strict=True):
            alone = [right(replace(case, x=x)) for x in case.x]
            assert got.tobytes() == np.stack(alone).tobytes(), (
                case.matrix.shape,
                case.weight_offset,
                case.value_offset,
            )


def test_the_order_of_a_float_sum_shows_in_the_cases_above() -> None:
    case = special_cases(F32, 9, 64)[0]
    assert case.matrix.dense is not None
    backwards = matvec(case.x[None, ::-1], case.matrix.dense[:, ::-1])[0]
    assert right(case).tobytes() != backwards.tobytes()
