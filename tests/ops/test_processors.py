"""The same bits from every set of CPU kernels that this processor can run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from digest import digest

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return digest()


def levels() -> list[str]:
    used, available = torch.ops.npu_lp._cpu_kernels()
    return [name for name in available.split() if name != used]


def run(level: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NPU_LP_CPU": level, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TESTS / "digest.py")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS, check=False)


def test_every_kernel_set_gives_the_same_bits(here: dict[str, str]) -> None:
    for level in levels():
        done = run(level)
        assert done.returncode == 0, done.stderr
        there = json.loads(done.stdout)
        assert {name for name in here if here[name] != there[name]} == set(), level


def test_a_kernel_set_that_the_processor_lacks_is_an_error_that_lists_what_it_has() -> None:
    done = run("z80")
    assert done.returncode != 0
    assert "z80" in done.stderr
    assert torch.ops.npu_lp._cpu_kernels()[1].split()[-1] in done.stderr
