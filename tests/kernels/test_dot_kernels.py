"""Every dot kernel of every folder, on packed matrices, against the exact sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dot_programs import BOARDS, FORMS, SUMS, Case, Dot, DotProgram, build_dot
from small_models import integer_matrix

from colibri.graph.coding import F32, FACTOR_MAX, FP4, FP4_SHIFT_MAX, GROUP
from colibri.graph.float32 import canonical, matvec
from colibri.graph.graph import BufferKind
from colibri.graph.weights import Matrix
from colibri.passes.quantise import activation_limit

ROWS = (1, 2, 3, 4, 5, 8, 12, 13, 24)
COLUMNS = (1, 2, 12, 13, 16, 17, 24, 31, 32, 33, 64, 100)
# 8 * 255 * 127 * 8288 is just below 2^31: the most that w4a8 may sum. 12 * 2^20 * 32767 * 21846 is just below 2^53.
LONGEST = 8288
LONGEST_OF_FP4 = 21846


def kernels(*, native: bool = False) -> pytest.MarkDecorator:
    """Run a test with each kernel, or with those that run on this machine."""
    params = []
    for folder in BOARDS:
        emulated = folder.startswith("neon")
        if not (native and emulated):
            marks = [pytest.mark.emulator] if emulated else []
            params += [pytest.param(Dot(folder, *form), id=str(Dot(folder, *form)), marks=marks) for form in FORMS]
    return pytest.mark.parametrize("dot", params)


def random_case(dot: Dot, rng: np.random.Generator, n: int, k: int, *places: int) -> Case:
    """Weights over the format's whole range, activations up to the limit of the length."""
    if dot.form == F32:
        dense, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, k), k))
        return Case(Matrix(dot.form, (n, k), dense), x, *places)
    limit = activation_limit(dot.form, dot.kind, k, "case")
    return Case(integer_matrix(dot.form, n, k, rng), rng.integers(-limit, limit + 1, k).astype(dot.dtype), *places)


def extreme_cases(dot: Dot, n: int, k: int) -> list[Case]:
    """All weights, activations and group scales at an end of their range, signs alike, opposed and alternating."""
    limit = activation_limit(dot.form, dot.kind, k, "case")
    ends = dot.form.limits
    top = FP4_SHIFT_MAX if dot.form == FP4 else FACTOR_MAX
    scales = np.full((n, -(-k // GROUP)), top, np.uint8) if dot.form.format.grouped else None
    turns = np.where(np.arange(k) % 2, 1, -1)
    cases = []
    for weight in (*(np.full((n, k), end) for end in ends), np.where(turns > 0, *ends) * np.ones((n, 1))):
        for x in (np.full(k, limit), np.full(k, -limit), turns * limit):
            matrix = Matrix(dot.form, (n, k), None, weight.astype(np.int8), np.ones(n, np.float32), scales)
            cases.append(Case(matrix, x.astype(dot.dtype)))
    return cases


def special_cases(n: int, k: int) -> list[Case]:
    """fp32 rows with denormals, infinities, NaN, signed zeros, and sums whose order shows."""
    rng = np.random.default_rng(k)
    special = np.array([0.0, -0.0, 1e-45, -1e-40, 1e-38, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
    cases = []
    for share in (0.0, 0.02, 0.3, 1.0):
        dense = (rng.standard_normal((n, k)) * 10.0 ** rng.integers(-20, 18, (n, k))).astype(np.float32)
        x = (rng.standard_normal(k) * 10.0 ** rng.integers(-20, 18, k)).astype(np.float32)
        dense = np.where(rng.random((n, k)) < share, rng.choice(special, (n, k)), dense).astype(np.float32)
        x = np.where(rng.random(k) < share, rng.choice(special[:7], k), x).astype(np.float32)
        cases.append(Case(Matrix(F32, (n, k), dense), x))
    return cases


def right(case: Case) -> np.ndarray:
    """What the numpy reference sums up to, before any scale."""
    if case.matrix.coding == F32:
        assert case.matrix.dense is not None
        with np.errstate(all="ignore"):
            return canonical(matvec(case.x[None], case.matrix.dense)[0])
    sums = case.matrix.combined.astype(np.int64) @ case.x.astype(np.int64)
    assert np.abs(sums).max() < (2**53 if case.matrix.coding == FP4 else 2**31)
    return sums.astype(SUMS[case.matrix.coding])


def check(program: DotProgram, cases: list[Case]) -> None:
    """Every sum has the right bits."""
    for case, got in zip(cases, program.run(cases), strict=True):
        if case.matrix.coding == F32:
            got = canonical(got)
        assert got.tobytes() == right(case).tobytes(), (case.matrix.shape, case.weight_offset, case.value_offset)


def shapes_and_places(dot: Dot) -> list[Case]:
    """Rows and columns below, at and above the tile's, and every place that an element may have."""
    rng = np.random.default_rng(1)
    cases = [random_case(dot, rng, n, k) for n in ROWS for k in COLUMNS]
    value = np.dtype(dot.dtype).itemsize
    weight = 4 if dot.form == F32 else 1
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
        check(program, [case for n, k in [(1, 200), (9, 64), (24, 13)] for case in special_cases(n, k)])
    else:
        longest = LONGEST_OF_FP4 if dot.form == FP4 else LONGEST
        check(
            program, [case for n, k in [(3, 12), (4, 32), (5, 64), (1, longest)] for case in extreme_cases(dot, n, k)]
        )


@kernels(native=True)
def test_no_undefined_behaviour_and_no_read_beyond_the_end(dot: Dot, tmp_path: Path) -> None:
    ends = special_cases(3, 13) if dot.kind is BufferKind.FLOAT else extreme_cases(dot, 3, 416)
    check(build_dot(dot, tmp_path, sanitize=True), shapes_and_places(dot) + ends)


def test_the_order_of_a_float_sum_shows_in_the_cases_above() -> None:
    case = special_cases(9, 64)[0]
    assert case.matrix.dense is not None
    backwards = matvec(case.x[None, ::-1], case.matrix.dense[:, ::-1])[0]
    assert right(case).tobytes() != backwards.tobytes()
