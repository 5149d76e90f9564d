"""Shared by all tests. pytest puts this folder on sys.path, so that `import reference` finds the model."""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import npu_lp
import pytest
import torch
from hypothesis import settings
from on_device import OnDevice

# "npu", a device, is for scripts/on_device.sh.
BACKENDS = tuple(os.environ.get("NPU_LP_TEST_BACKENDS", "cpu,twin").split(","))
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
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every op test runs once on each backend (module-scoped, so that hypothesis may be used under it)."""
    if request.param == "npu":
        importlib.import_module("torch_npu")  # puts the device into torch
        with OnDevice("npu"):
            yield request.param
        return
    with npu_lp.backend(request.param):
        yield request.param


def backend_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.params.get("backend", ""))


def on_twin(item: pytest.Item) -> bool:
    return backend_of(item) == "twin"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fewer examples a hypothesis test on the twin, unless the profile is the thorough one."""
    test = getattr(item, "obj", None)
    if getattr(test, "hypothesis", None) is None:
        return
    examples = settings.default.max_examples // 6 if on_twin(item) else settings.default.max_examples
    test._hypothesis_internal_use_settings = settings(settings.default, max_examples=examples)


def without_kernel(error: BaseException | None) -> str:
    """The message of the NotImplementedError that lies at the bottom of an error, or ""."""
    while error is not None:
        if isinstance(error, NotImplementedError) and "no Ascend kernel" in str(error):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """What has no Ascend kernel is no failure of twin or device: the test is skipped, for the reason that the op gives."""
    try:
        return (yield)
    except Exception as error:
        reason = without_kernel(error) if backend_of(item) in ("twin", "npu") else ""
        if not reason:
            raise
    pytest.skip(reason.split(". ")[0])


@pytest.fixture
def restore_threads() -> Iterator[None]:
    """Puts torch's number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
