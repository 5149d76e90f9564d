"""The binding to torch_npu without an NPU: it compiles and links against the wheel, loads, and dispatches.

Nothing here runs a kernel. Shapes, dtypes and scale layouts are those of meta tensors and of fake tensors of the NPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from binding_build import build_binding, stub_cann, unpacked_wheel

PYTHON = Path(torch.__file__).parents[1]


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process with torch_npu and the binding reports (loaded_binding.py)."""
    cache = request.config.cache
    assert cache is not None
    folder = tmp_path_factory.mktemp("binding")
    wheel, stub = unpacked_wheel(cache.mkdir("torch_npu")), folder / "cann"
    stub.mkdir()
    stub_cann(wheel, stub)
    library = build_binding(wheel, stub, folder)
    environment = os.environ | {
        "LD_LIBRARY_PATH": f"{stub}:{wheel}/torch_npu/lib",
        "PYTHONPATH": str(wheel),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "NPU_LP_BACKEND": "cpu",
    }
    script = Path(__file__).with_name("loaded_binding.py")
    run = subprocess.run(
        [sys.executable, str(script), str(library)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    report: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return report


def test_the_binding_registers_every_op_and_infers_what_the_npu_would_return(said: dict[str, Any]) -> None:
    composite = {"mx_fake_quant", "mx_linear", "mx_linear_dual"}  # made of others
    assert {name for name, has in said["kernels"].items() if not has} == composite
    assert not said["available"]

    fake, meta = said["fake"], said["meta"]
    assert fake.keys() == meta.keys()
    for name, results in fake.items():
        assert [r[2] for r in results] == ["npu"] * len(results), name
        assert [r[:2] + r[3:] for r in results] == [r[:2] + r[3:] for r in meta[name]], name

    shapes = {name: [r[0] for r in results] for name, results in fake.items()}
    assert shapes["mx_quant"] == [[128, 256], [128, 4, 2]]
    assert shapes["mx_quant axis -2"] == [[256, 512], [4, 512, 2]]
    assert shapes["mx_quant batch"] == [[3, 70, 96], [3, 2, 96, 2]]
    assert shapes["mx_quant fp4"] == [[128, 128], [128, 4, 2]]
    assert shapes["mx_to_block"] == [[3, 70, 96], [3, 70, 2, 2], [3, 2, 96, 2], []]
    assert shapes["mx_quant_grouped"] == [[128, 256], [6, 256, 2]]
    assert shapes["mx_quant_matmul"] == shapes["mx_quant_matmul_add_"] == [[128, 512]]
    assert shapes["mx_grouped_matmul k"] == [[4, 256, 256]]

    # torch_npu's own ops agree: data and scales may be passed between the two.
    for name, results in said["torch_npu"].items():
        assert [r[0] for r in results] == shapes[name], name
