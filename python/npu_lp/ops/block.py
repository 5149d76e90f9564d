"""Square blocks: 32x32 tiles with one e8m0 scale, and larger blocks with an fp32 scale (DeepSeek-V3's recipe).

"BlockFP8" names both in the field. torchtitan-npu's is the first, ``mx_quant_block``; DeepSeek-V3's is the second,
``block_quant``.
"""

from typing import Literal

import torch
from torch import Tensor

from npu_lp.names import Format, Rounding, ScaleRule, Underflow


def mx_quant_block(
    x: Tensor,
    fmt: Format = "e4m3",
    scale_rule: ScaleRule = "floor",
    *,
    underflow: Underflow = "ocp",
    rounding: Rounding = "rint",
    dst_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize ``x`` in tiles of 32x32 that share one e8m0 scale (torch_npu: npu_dynamic_block_mx_quant).

    One set of codes serves a matmul that sums over either axis, which is why weights are quantized this way.

    Args:
        x: ``[M, N]`` or ``[B, M, N]``, bfloat16, float16 or float32.
        fmt: FP8 takes scale_rule "floor" only, "e2m1" also "dtype_range" with dst_max 0, 6 or 7.
        scale_rule: as in :func:`npu_lp.ops.mx_quant`.
        underflow: likewise.
        rounding: likewise.
        dst_max: likewise.

    Returns:
        ``(data, scale_row, scale_col)``: the scale of each tile in the layout of blocks along the last axis and along the
        one before, ready to be passed with ``data`` to :func:`npu_lp.ops.mx_quant_matmul`.

    Raises:
        TypeError, ValueError: as mx_quant's.
    """
    return torch.ops.npu_lp.mx_quant_block(x, fmt, scale_rule, underflow=underflow, rounding=rounding, dst_max=dst_max)


def mx_to_block(
    data: Tensor,
    scale: Tensor,
    fmt_from: Literal["e2m1", "e1m2"] = "e2m1",
    fmt_to: Literal["e4m3", "e5m2"] = "e4m3",
    *,
    nan_as_number: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Convert MXFP4 with blocks along the last axis to FP8 in 32x32 tiles (mx_to_block_mx_quant in ops-nn).

    Exact as long as the scales within a tile are at most about 2**14 apart; beyond that, small rows lose bits.

    Args:
        data: uint8 ``[M, N/2]`` or ``[B, M, N/2]``, as mx_quant(x, -1, fmt_from) returns it.
        scale: its scales.
        fmt_from: the FP4 format of data.
        fmt_to: the FP8 format of the result.
        nan_as_number: read scale byte 255 as the number 255, as the device's kernel does, which loses the NaN. By default
            a tile with a NaN block becomes a NaN tile.

    Returns:
        ``(data, scale_row, scale_col, inexact)``: as :func:`mx_quant_block`; ``inexact`` is the number of elements, as an
        int64 scalar tensor, whose value changed.
    """
    return torch.ops.npu_lp.mx_to_block(data, scale, fmt_from, fmt_to, nan_as_number=nan_as_number)


def block_quant(
    x: Tensor,
    row: int = 1,
    col: int = 128,
    fmt: Literal["e4m3", "e5m2", "hif8"] = "e4m3",
    *,
    dst_max: float = 0.0,
    min_scale: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Quantize ``x`` in blocks of row x col with an fp32 scale each (torch_npu: npu_dynamic_block_quant).

    ``scale = amax / max`` and ``data = round(x / scale)``, both true fp32 divisions. DeepSeek-V3 trains with 1x128 blocks
    for activations and 128x128 for weights. A block of zeros has scale 0; NaN or Inf in a block makes its scale NaN or Inf.

    Args:
        x: ``[M, N]`` or ``[B, M, N]``, bfloat16, float16 or float32.
        row: rows of a block: 1, 64, 128, 256 or 512.
        col: columns of a block: 64, 128, 192 or 256.
        fmt: "e4m3", "e5m2" or "hif8".
        dst_max: for hif8, the value that amax is taken to: 0 (32768), 15, 56, 224 or 32768.
        min_scale: not 0: scales are at most 1/min_scale.

    Returns:
        ``(data, scale)``: codes in x's shape (hif8 as uint8), and float32 ``[..., ceil(M/row), ceil(N/col)]``.
    """
    return torch.ops.npu_lp.block_quant(x, row, col, fmt, dst_max=dst_max, min_scale=min_scale)


def block_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
    *,
    x1_fmt: str | None = None,
    x2_fmt: str | None = None,
) -> Tensor:
    """Multiply operands of :func:`block_quant`: for each 128 of K an fp32 sum, times the product of its two scales.

    (torch_npu: npu_quant_matmul with group_sizes [1, 128, 128] or [128, 128, 128].)

    Args:
        x1: ``[M, K]``.
        x2: ``[K, N]``, any strides.
        x1_scale: float32 ``[M, ceil(K/128)]`` or ``[ceil(M/128), ceil(K/128)]``.
        x2_scale: float32 ``[ceil(K/128), N]`` or ``[ceil(K/128), ceil(N/128)]``.
        out_dtype: bfloat16, float16 or float32.
        x1_fmt: "hif8" where x1 is uint8.
        x2_fmt: likewise of x2.
    """
    return torch.ops.npu_lp.block_quant_matmul(x1, x2, x1_scale, x2_scale, out_dtype, x1_fmt=x1_fmt, x2_fmt=x2_fmt)
