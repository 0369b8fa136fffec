"""The library of kernels, portable ones and those for AVX2, built once per worker."""

from __future__ import annotations

import pytest
from kernel_library import Kernels, build_kernels

from colibri.boards.load import load_board


@pytest.fixture(scope="session", params=["x86-64-v2", "x86-64-v3"], ids=["portable", "avx2"])
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"), load_board(request.param))


@pytest.fixture(scope="session")
def portable(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("portable"), load_board("x86-64-v2"))


@pytest.fixture(scope="session")
def avx2(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("avx2"), load_board("x86-64-v3"))
