"""Gradients of low-precision matmuls: which operand is quantized along which axis, and what is saved for backward."""

from npu_lp.autograd.grouped import grouped_linear
from npu_lp.autograd.linear import low_precision_matmul

__all__ = ["grouped_linear", "low_precision_matmul"]
