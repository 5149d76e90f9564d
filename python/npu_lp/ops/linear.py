"""Quantize + matmul in one op: what an activation goes through in a layer."""

import torch
from torch import Tensor

from npu_lp.names import Format, ScaleRule


def mx_linear(
    x: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None = None,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "rceil",
    *,
    out_dtype: torch.dtype | None = None,
    x2_fmt: str | None = None,
    block_size: int = 32,
) -> Tensor:
    """Quantize ``x`` along its last axis and multiply: ``x @ x2`` with a quantized x2, from one read of x.

    Bit for bit ``mx_quant(x, -1, fmt, scale_rule)`` followed by :func:`npu_lp.ops.mx_quant_matmul`. The CPU backend
    quantizes rows into a buffer that stays in cache and multiplies from there: no codes of x's size are allocated. Other
    backends run the two ops one after the other.

    Args:
        x: ``[..., M, K]``, bfloat16, float16 or float32, any strides.
        x2: ``[..., K, N]`` codes, as mx_quant_matmul's. A layer's weight ``[N, K]`` is passed as ``data.mT`` with
            ``scale.transpose(-3, -2)``.
        x2_scale: ``[..., ceil(K/64), N, 2]``.
        bias: float32 ``[N]``.
        fmt: element format of x. FP4 multiplies FP4 only.
        scale_rule: as in mx_quant.
        out_dtype: bfloat16, float16 or float32; None is x's.
        x2_fmt: the format of x2, where it is uint8.
        block_size: that of both operands.

    Raises:
        TypeError, ValueError: as mx_quant's and mx_quant_matmul's.
    """
    return torch.ops.npu_lp.mx_linear(
        x, x2, x2_scale, bias, fmt, scale_rule, out_dtype=out_dtype, x2_fmt=x2_fmt, block_size=block_size
    )


def mx_linear_dual(
    x: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None = None,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "rceil",
    *,
    out_dtype: torch.dtype | None = None,
    x2_fmt: str | None = None,
    block_size: int = 32,
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`mx_linear`, and from the same read of x its codes along the axis before the last.

    A layer's forward keeps these for wgrad, and its backward, whose x is the output gradient, uses them at once.

    Returns:
        ``(out, data_col, scale_col)``: the product, and bit for bit the last two results of
        :func:`npu_lp.ops.mx_quant_dual`.

    Arguments and errors are those of mx_linear.
    """
    return torch.ops.npu_lp.mx_linear_dual(
        x, x2, x2_scale, bias, fmt, scale_rule, out_dtype=out_dtype, x2_fmt=x2_fmt, block_size=block_size
    )
