"""opcheck and shape functions of the ops of the other formats: tiles, HiF8, fp32 block scales, fake quantization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checks import ops, spread
from opchecks import Call, changes_or_aliases_its_arguments, opcheck, shape_function_disagrees

pytestmark = pytest.mark.usefixtures("backend")

OFFS = torch.tensor([7, 7, 40], dtype=torch.int32)


def x(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return spread(shape, dtype, 1, specials=False)


def hif8(*shape: int) -> torch.Tensor:
    data: torch.Tensor = ops.hif8_quant(x(*shape))[0]
    return data


def blocks(rows: int, *shape: int) -> Any:
    return ops.block_quant(x(*shape), rows, 128)


ONE = torch.ones(1)
(A, A_SCALE), (B, B_SCALE) = blocks(1, 40, 300), blocks(128, 300, 70)

CALLS: list[Call] = [
    ("mx_quant", (x(40, 70), -1, "e2m1", "dtype_range"), {"dst_max": 7.0, "rounding": "floor"}),
    ("mx_quant_dual", (x(40, 70), "e2m1", "floor"), {}),
    ("mx_quant_grouped", (x(50, 70), OFFS, "e1m2", "dtype_range"), {}),
    ("mx_quant", (x(40, 70), -1, "e3m2", "rceil", 16), {}),
    ("mx_fake_quant", (x(40, 70),), {}),
    ("mx_fake_quant", (x(40, 70, dtype=torch.float32), 0, "e4m3", "rceil"), {}),
    ("mx_quant_block", (x(40, 70),), {}),
    ("mx_quant_block", (x(2, 33, 70, dtype=torch.float32), "e2m1", "dtype_range"), {}),
    ("mx_to_block", ops.mx_quant(x(40, 70), -1, "e2m1", "floor"), {}),
    ("hif8_quant", (x(40, 70),), {}),
    ("hif8_quant", (x(40, 70), 15.0, "token"), {}),
    ("hif8_quant", (x(2, 40, 70), 224.0, "channel"), {}),
    ("hif8_dequant", ops.hif8_quant(x(40, 70)), {}),
    ("hif8_quant_matmul", (hif8(5, 70), hif8(70, 9), ONE, ONE), {}),
    ("hif8_quant_matmul", (hif8(5, 70), hif8(70, 9), torch.ones(5), torch.ones(9), torch.ones(9), torch.float32), {}),
    ("hif8_grouped_matmul", (hif8(50, 70), hif8(3, 70, 9), ONE, torch.ones(3), OFFS, "m"), {}),
    ("hif8_grouped_matmul", (hif8(50, 70).t(), hif8(50, 9), ONE, ONE, OFFS, "k"), {}),
    ("block_quant", (x(40, 300),), {}),
    ("block_quant", (x(40, 300), 128, 64, "hif8"), {"dst_max": 15.0}),
    ("block_quant_matmul", (A, B, A_SCALE, B_SCALE), {}),
]
IDS = [f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)]


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_opcheck(call: Call) -> None:
    opcheck(call)


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_no_op_changes_or_aliases_its_arguments(call: Call) -> None:
    assert not changes_or_aliases_its_arguments(call)


@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_shape_function_agrees_with_the_kernel(call: Call) -> None:
    assert not shape_function_disagrees(call)


def test_fake_quantization_passes_gradients_straight_through_and_equals_quantize_and_dequantize() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for fmt, rule in (("e2m1", "dtype_range"), ("e1m2", "floor"), ("e4m3", "rceil")):
            for axis in (-1, -2):
                t = x(40, 70, dtype=dtype).requires_grad_()
                y = ops.mx_fake_quant(t, axis, fmt, rule)
                want = ops.mx_dequant(*ops.mx_quant(t.detach(), axis, fmt, rule), axis, fmt, dtype)
                assert torch.equal(y.detach(), want)
                grad = x(40, 70, dtype=dtype)
                y.backward(grad)
                assert t.grad is not None
                assert torch.equal(t.grad, grad)
