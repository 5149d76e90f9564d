"""What a person with an Ascend 950 runs, as far as it runs without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from npu_lp import ops
from on_device import OnDevice

ROOT = Path(__file__).resolve().parents[1]


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "ASCEND_HOME_PATH"}
    return subprocess.run(
        list(map(str, command)), env=clean | environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_script_says_what_it_does_and_what_is_missing() -> None:
    script = ROOT / "scripts" / "on_device.sh"
    done = run("bash", script, "--help")
    assert done.returncode == 0
    assert "on_device_DATE.tar.gz" in done.stdout
    assert run("bash", script, "--fast").returncode == 2
    done = run("bash", script)
    assert done.returncode == 1
    assert "ASCEND_HOME_PATH is not set" in done.stderr


def test_the_benchmark_predicts_without_a_device_and_refuses_to_measure(tmp_path: Path) -> None:
    program, file = ROOT / "scripts" / "device_benchmark.py", tmp_path / "model.json"
    done = run(sys.executable, program, "--model", "--quick", "--json", file)
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    assert [len(results), min(result["us"]["model"] for result in results) > 1] == [6, True]
    done = run(sys.executable, program, "--json", file)
    assert done.returncode == 1
    assert "torch_npu is not installed" in done.stderr


def test_tensors_go_to_the_device_as_the_views_they_are_and_results_come_back() -> None:
    x = torch.randn(96, 80).T[8:, ::2]
    a, w = ops.mx_quant(torch.randn(40, 64)), ops.mx_quant(torch.randn(24, 64))
    total = torch.ones(40, 24)
    plain = [*ops.mx_quant(x), ops.mx_quant_matmul(a[0], w[0].T, a[1], w[1].transpose(0, 1))]
    ops.mx_quant_matmul_add_(expected := total.clone(), a[0], w[0].T, a[1], w[1].transpose(0, 1))
    with OnDevice("cpu"):  # another device is not here: a copy stands for it
        there = [*ops.mx_quant(x), ops.mx_quant_matmul(a[0], w[0].T, a[1], w[1].transpose(0, 1))]
        ops.mx_quant_matmul_add_(total, a[0], w[0].T, a[1], w[1].transpose(0, 1))
    for one, other in zip([*plain, expected], [*there, total], strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
