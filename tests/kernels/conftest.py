"""The library of portable kernels, built once per worker."""

from __future__ import annotations

import pytest
from kernel_library import Kernels, build_kernels


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))
