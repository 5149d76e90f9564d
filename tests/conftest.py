"""Shared by all tests. pytest puts this folder on sys.path, so that `import reference` finds the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

BACKENDS = ("cpu",)
GOLDEN_CASES = Path(__file__).parent / "data" / "golden_cases.json"

# Shared machines stall for seconds: no deadline. HYPOTHESIS_PROFILE=thorough looks ten times longer.
settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=600)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def golden_cases_file() -> Path:
    """96 conformance cases: inputs and outputs of torch_npu's ops as bytes."""
    return GOLDEN_CASES


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Every op test runs once on each backend (module-scoped, so that hypothesis may be used under it)."""
    return str(request.param)


@pytest.fixture
def restore_threads() -> Iterator[None]:
    """Puts torch's number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
