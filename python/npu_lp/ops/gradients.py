"""Gradients of the few ops that have one: of bias in the matmuls, and straight through fake quantization.

The gradients of training are defined in npu_lp.autograd, where whole layers are differentiated.
"""

from typing import Any

import torch
from torch import Tensor


def _remember_bias(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Tensor) -> None:
    bias = inputs[4]
    ctx.bias_dtype = None if bias is None else bias.dtype


def _bias_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Of (x1, x2, x1_scale, x2_scale, bias, out_dtype)."""
    grad_bias = None if ctx.bias_dtype is None else grad.flatten(0, -2).sum(0, dtype=ctx.bias_dtype)
    return None, None, None, None, grad_bias, None


def _straight_through(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Of (x, axis, fmt, scale_rule, block_size)."""
    return grad, None, None, None, None


for _matmul in ("npu_lp::mx_quant_matmul", "npu_lp::hif8_quant_matmul"):
    torch.library.register_autograd(_matmul, _bias_gradient, setup_context=_remember_bias)
torch.library.register_autograd("npu_lp::mx_fake_quant", _straight_through)
