"""The backend switch, the twin's settings and records, and its errors in Python."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import npu_lp
import pytest
import torch
from checks import assert_same_tensors, ops, spread
from npu_lp import _library, backends, twin


@pytest.fixture(autouse=True)
def clean_twin() -> Any:
    twin.clear()
    before = backends.selected()
    yield
    assert backends.selected() == before
    twin.clear()


X = spread((70, 130), torch.bfloat16, 1)


def test_a_backend_holds_within_its_block_and_nests() -> None:
    assert backends.selected() == "cpu"
    with npu_lp.backend("twin") as outer:
        assert backends.selected() == "twin"
        with npu_lp.backend("cpu"), outer:
            assert backends.selected() == "twin"
        assert backends.selected() == "twin"
    assert backends.selected() == "cpu"


def test_the_block_before_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), npu_lp.backend("twin"):
        raise ZeroDivisionError
    assert backends.selected() == "cpu"


def test_it_decorates_functions_that_call_themselves() -> None:
    @npu_lp.backend("twin")
    def depth(n: int) -> list[str]:
        return [backends.selected()] + (depth(n - 1) if n else [])

    assert depth(2) == ["twin"] * 3
    assert backends.selected() == "cpu"


def test_an_unknown_backend_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r'"npu".*"cpu" or "twin"'):
        npu_lp.backend("npu")  # type: ignore[arg-type]


def test_tensors_go_where_the_backend_says() -> None:
    on_cpu = ops.mx_quant(X)
    assert twin.launches() == 0
    with npu_lp.backend("twin"):
        on_twin = ops.mx_quant(X)
    assert twin.launches() == 1
    assert_same_tensors(on_twin, on_cpu)


def test_it_holds_in_other_threads_as_autograd_needs() -> None:
    class Quantize(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return ops.mx_dequant(*ops.mx_quant(grads[0]), out_dtype=torch.float32)

    x = spread((8, 64), torch.float32, 1, specials=False).requires_grad_()
    with npu_lp.backend("twin"):
        loss = Quantize.apply(x).square().sum()
        worker = threading.Thread(target=loss.backward)
        worker.start()
        worker.join()
    assert twin.launches() == 2
    assert x.grad is not None


def environment_run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=False
    )


def test_the_environment_variable_chooses_and_is_validated() -> None:
    code = "import npu_lp; print(npu_lp.backends.selected())"
    assert environment_run(code, NPU_LP_BACKEND="twin").stdout == "twin\n"
    assert environment_run(code, NPU_LP_BACKEND="").stdout == "cpu\n"
    wrong = environment_run(code, NPU_LP_BACKEND="gpu").stderr
    assert "NPU_LP_BACKEND" in wrong and '"gpu"' in wrong and '"cpu" or "twin"' in wrong


def test_a_missing_twin_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_library, "TWIN_LIBRARY", tmp_path / "libnpu_lp_twin.so")
    with pytest.raises(ImportError, match=r"libnpu_lp_twin\.so does not exist.*\n.*pip install"), npu_lp.backend("twin"):
        pass
    assert backends.selected() == "cpu"


def test_options_change_and_return() -> None:
    before = twin.settings()
    with twin.options(mode="shuffled", seed=3, cores=4):
        now = twin.settings()
        assert (now.mode, now.seed, now.cores) == ("shuffled", 3, 4)
    assert twin.settings() == before


@pytest.mark.parametrize(
    ("option", "parts"),
    [({"mode": "random"}, ("random", "shuffled")), ({"cores": 0}, ("cores=0", "32")), ({"threads": -1}, ("threads=-1",))],
)
def test_wrong_options_are_errors(option: dict[str, Any], parts: tuple[str, ...]) -> None:
    before = twin.settings()
    with pytest.raises(ValueError, match=parts[0]) as caught:
        twin.set_options(**option)
    assert all(part in str(caught.value) for part in parts)
    with pytest.raises(TypeError, match="speed"):
        twin.set_options(speed=2)
    assert twin.settings() == before


@pytest.mark.parametrize("options", [{"mode": "shuffled", "seed": 1}, {"cores": 1}, {"cores": 5, "threads": 1}])
def test_how_kernels_are_run_changes_no_bit(options: dict[str, Any]) -> None:
    want = ops.mx_quant(X, -2)
    with npu_lp.backend("twin"), twin.options(**options):
        assert_same_tensors(ops.mx_quant(X, -2), want)


def test_records_say_what_launches_did() -> None:
    x = torch.zeros(64, 256, dtype=torch.bfloat16)
    with npu_lp.backend("twin"), twin.options(record=True, cores=2, keep=2):
        for _ in range(3):
            ops.mx_quant(x)
    assert twin.launches() == 3
    first, second = twin.records()
    assert "mx_quant_last" in first.kernel and first.kind == "vector" and 1 <= first.blocks <= 4
    summary = second.summary()
    assert summary["MTE2"][1] == x.numel() * 2
    assert summary["MTE3"][1] == x.numel() + x.numel() // 32
    assert summary["VECTOR"][0] > 0
    twin.clear()
    assert twin.records() == [] and twin.launches() == 0


def faults(call: Any) -> twin.TwinError:
    with pytest.raises(twin.TwinError) as caught:
        call()
    return caught.value


def test_a_fault_is_a_python_exception_with_reports() -> None:
    twin.settings()  # loads it
    error = faults(torch.ops.npu_lp._faulty_launch)
    assert "a fault made for tests" in str(error)
    report = error.reports[0]
    assert (report.check, report.message) == ("bounds", "a fault made for tests")
    assert report.file.endswith("twin_backend.cpp") and report.line > 0 and report.block in (0, 1)


def test_a_fault_in_a_backward_pass_keeps_its_type() -> None:
    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            torch.ops.npu_lp._faulty_launch()
            return grads[0]

    x = torch.ones(3, requires_grad=True)
    assert faults(Faulty.apply(x).sum().backward).reports


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("stochastic", lambda: ops.mx_quant(X, fmt="e2m1", scale_rule="floor", rounding="stochastic")),
        ("block_size", lambda: ops.mx_quant(X, block_size=16)),
        ("e3m2", lambda: ops.mx_quant(X, fmt="e3m2")),
        ("block_quant", lambda: ops.block_quant(X)),
        ("hif8_dequant", lambda: ops.hif8_dequant(torch.zeros(4, 4, dtype=torch.uint8), torch.ones(1))),
    ],
)
def test_what_has_no_kernel_names_the_cpu_backend(name: str, call: Any) -> None:
    with npu_lp.backend("twin"), pytest.raises(NotImplementedError, match="no Ascend kernel") as caught:
        call()
    assert name in str(caught.value) and 'npu_lp.backend("cpu")' in str(caught.value)
